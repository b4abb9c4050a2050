package memory

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgram releases the pages of the program's code and constants: most of them
// are used during the start only.
func releaseProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find the program's file: %w", err)
	}
	return ReleaseFile(program)
}

// ReleaseFile removes the pages of a file that is mapped into this process from the
// resident memory, unless they were written to. The kernel maps used pages again from the
// page cache. path has no symbolic links. The file must not be unmapped meanwhile. It does
// nothing on other platforms than Linux.
func ReleaseFile(path string) error {
	mapped, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("read the memory mappings of this process: %w", err)
	}
	defer func() { _ = mapped.Close() }() // only read
	regions, err := unwritten(mapped, path)
	if err != nil {
		return err
	}
	for _, r := range regions {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, r.from, r.to-r.from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("release the pages of %s: %w", path, errno)
		}
	}
	return nil
}

// region is a part of the address space.
type region struct{ from, to uintptr }

// unwritten returns the mapped regions of the file in smaps that are not writable and
// have no private pages: releasing others would lose what was written.
func unwritten(smaps io.Reader, file string) ([]region, error) {
	var regions []region
	listed := false // the lines are about the last region
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) > 0 && strings.HasSuffix(fields[0], ":"): // NAME: NUMBER kB
			if listed && fields[0] == "Anonymous:" && fields[1] != "0" {
				regions = regions[:len(regions)-1]
				listed = false
			}
		case len(fields) >= 6 && pathOf(lines.Text()) == file && !strings.Contains(fields[1], "w"): // FROM-TO PERMISSIONS OFFSET DEVICE INODE FILE
			var r region
			if _, err := fmt.Sscanf(fields[0], "%x-%x", &r.from, &r.to); err != nil {
				return nil, fmt.Errorf("read the addresses %q of %s: %w", fields[0], file, err)
			}
			regions, listed = append(regions, r), true
		default:
			listed = false
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the memory mappings of this process: %w", err)
	}
	return regions, nil
}

// pathOf returns the sixth field of a line, which may have spaces.
func pathOf(line string) string {
	const before = 5 // fields
	for range before {
		_, line, _ = strings.Cut(strings.TrimLeft(line, " "), " ")
	}
	return strings.TrimLeft(line, " ")
}
