package appliance

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// releaseProgramPages tells the kernel that the read-only pages of the
// executable need not stay mapped. They are clean and backed by the file: the
// few that are used come back from the page cache when they are touched.
func releaseProgramPages() error {
	executable, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find the executable: %w", err)
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
