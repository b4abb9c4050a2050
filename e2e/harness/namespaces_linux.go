package harness

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// namespacesVariable is set in the process of a test that has namespaces of its own, to
// realRoot or mappedRoot.
const namespacesVariable = "HARNESS_NAMESPACES"

const (
	realRoot   = "root"   // the test process was started by root
	mappedRoot = "mapped" // the user is root in a user namespace only, and there is no other user
)

// InNamespaces runs the calling test again in a process that is root in a mount namespace,
// and in the further namespaces (as [unix.CLONE_NEWNET]). It returns true in that process,
// where the test does its work; what it mounts is not seen elsewhere. Otherwise it returns
// false, when that process has ended: the test has its result and must return. The test is
// parallel to others. It is skipped where namespaces are not permitted.
func InNamespaces(t *testing.T, further uintptr) bool {
	t.Helper()
	if os.Getenv(namespacesVariable) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatalf("make the mounts private: %v", err)
		}
		return true
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=1h")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | further}
	user := realRoot
	if os.Geteuid() != 0 {
		user = mappedRoot
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	cmd.Env = append(os.Environ(), namespacesVariable+"="+user, "KHM_BINARY="+Binary(t))
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("namespaces are not permitted here: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in its own namespaces: %v\n%s", err, out)
	}
	return false
}

// CanBecomeOthers reports whether a process of [InNamespaces] can start programs as other
// users.
func CanBecomeOthers() bool { return os.Getenv(namespacesVariable) == realRoot }

// StartLoopback brings up the loopback interface of a network namespace, which is down in
// a new one.
func StartLoopback(t *testing.T) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(socket) }() // it only served the request
	request, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatalf("bring up the loopback interface: %v", err)
	}
}

// MountTmpfs mounts an empty file system at the directory, with these options, in a process
// of [InNamespaces].
func MountTmpfs(t *testing.T, dir, options string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("mount a file system at %s: %v", dir, err)
	}
}
