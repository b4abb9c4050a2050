package appliance

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// positionIndependent says whether the program was built with -buildmode=pie.
func positionIndependent() (bool, error) {
	file, err := elf.Open("/proc/self/exe")
	if err != nil {
		return false, fmt.Errorf("read the executable: %w", err)
	}
	return file.Type == elf.ET_DYN, file.Close()
}

// releaseProgramPages tells the kernel that the read-only pages of the
// executable need not stay mapped. They are clean and backed by the file: the
// few that are used come back from the page cache when they are touched.
func releaseProgramPages() error {
	executable, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find the executable: %w", err)
	}
	if movable, err := positionIndependent(); err != nil || movable {
		return err // relocation has written into what is read-only now
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("read the memory map: %w", err)
	}
	defer func() { _ = maps.Close() }() // only read from
	var errs []error
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		// 00400000-03439000 r-xp 00000000 08:01 1234  /usr/bin/kube-hyper-mini
		var start, end uintptr
		var mode string
		if !strings.HasSuffix(lines.Text(), " "+executable) {
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %4s", &start, &end, &mode); err != nil {
			errs = append(errs, fmt.Errorf("read the memory map: %w", err))
			continue
		}
		if mode != "r-xp" && mode != "r--p" {
			continue // written pages would lose what was written
		}
		region := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), start)), end-start)
		if err := unix.Madvise(region, unix.MADV_DONTNEED); err != nil {
			errs = append(errs, fmt.Errorf("release %s: %w", lines.Text(), err))
		}
	}
	return errors.Join(append(errs, lines.Err())...)
}
