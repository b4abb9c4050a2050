package memory

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// residentFile is how much of files is in the resident memory, in kB.
func residentFile(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "RssFile:" {
			size, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return size
		}
	}
	t.Fatal("the resident memory of files is not known")
	return 0
}

// TestProgramIsReleased: the process continues after its pages were released.
func TestProgramIsReleased(t *testing.T) {
	before := residentFile(t)
	if err := releaseProgram(); err != nil {
		t.Fatal(err)
	}
	if after := residentFile(t); after >= before {
		t.Errorf("%d kB of files are resident, %d before", after, before)
	}
	if text := strings.Repeat("a", 3); text != "aaa" {
		t.Errorf("constants are lost: %q", text)
	}
}

func TestOnlyUnwrittenRegionsAreReleased(t *testing.T) {
	const smaps = `00400000-00500000 r-xp 00000000 fe:00 99 /bin/program
Rss:                44060 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
00500000-00600000 r--p 00100000 fe:00 99 /bin/program
Rss:                46968 kB
Anonymous:             8 kB
VmFlags: rd mr mw me
00600000-00700000 rw-p 00200000 fe:00 99 /bin/program
Anonymous:             0 kB
00700000-00800000 r--p 00000000 fe:00 98 /bin/other
Anonymous:             0 kB
00800000-00900000 r--p 00300000 fe:00 99 /bin/program
Anonymous:             0 kB
00900000-00a00000 rw-p 00000000 00:00 0
Anonymous:             4 kB
00b00000-00c00000 r--s 00000000 fe:00 97                 /data dir/etcd/db
Anonymous:             0 kB
`
	regions, err := unwritten(strings.NewReader(smaps), "/bin/program")
	if want := []region{{0x400000, 0x500000}, {0x800000, 0x900000}}; err != nil || !slices.Equal(regions, want) {
		t.Errorf("%v: %x, want %x", err, regions, want)
	}
	regions, err = unwritten(strings.NewReader(smaps), "/data dir/etcd/db")
	if want := []region{{0xb00000, 0xc00000}}; err != nil || !slices.Equal(regions, want) {
		t.Errorf("%v: %x, want %x", err, regions, want)
	}
	if _, err := unwritten(strings.NewReader("oops r--p 0 fe:00 99 /bin/program\n"), "/bin/program"); err == nil {
		t.Error("a list that cannot be read is used")
	}
}
