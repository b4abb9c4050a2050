package incluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
	"kube-hyper-mini.io/kube-hyper-mini/internal/testplane"
)

// failureFD is the file in which Enter reports a failure.
const failureFD = testplane.FirstFile

func supported() error { return nil }

// namespaces are those to try in turn: root needs only a mount namespace, unless it
// lacks the right to mount, as in many containers. In a user namespace the program keeps
// its user and group. The right to mount (an ambient capability) is dropped before the
// program runs.
func namespaces() []*syscall.SysProcAttr {
	user := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
	}
	if os.Geteuid() != 0 {
		return []*syscall.SysProcAttr{user}
	}
	return []*syscall.SysProcAttr{{Cloneflags: syscall.CLONE_NEWNS}, user}
}

// mountNamespace identifies the mount namespace of this process.
func mountNamespace() (string, error) {
	name, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return "", fmt.Errorf("find the mount namespace of this process: %w", err)
	}
	return name, nil
}

// errByHand means that [Run] has not started this process.
var errByHand = errors.New("this command is for the command in-cluster only")

// Enter is the work of the started process: it mounts the account in the directory of a
// run and then replaces itself by the program at path. It returns if that fails, after it
// has reported the failure to [Run]; its error is one that it could not report. outside is
// the mount namespace of Run, in which Enter mounts nothing.
func Enter(outside, dir, path string, args []string) error {
	var pipe unix.Stat_t
	if err := unix.Fstat(failureFD, &pipe); err != nil || pipe.Mode&unix.S_IFMT != unix.S_IFIFO {
		return errByHand
	}
	inside, err := mountNamespace()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(outside, "mnt:") || inside == outside {
		return errByHand
	}
	syscall.CloseOnExec(failureFD)
	failures := os.NewFile(failureFD, "failures")
	runtime.LockOSThread() // capabilities are those of a thread
	kind := ""
	switch err = mountAccount(dir); {
	case err == nil:
		kind, err = execFailure, become(path, args)
	case errors.Is(err, fs.ErrPermission):
		kind = mountFailure
	case errors.Is(err, errChroot):
		kind = chrootFailure
	}
	_, err = failures.WriteString(kind + err.Error())
	return err
}

// become drops the capabilities of the user namespace and runs the program.
func become(path string, args []string) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop the capabilities: %w", err)
	}
	return fmt.Errorf("COMMAND %q cannot be run: %w", path, syscall.Exec(path, args, os.Environ()))
}

// mountAccount makes the account's directory visible where programs look for it, in
// this mount namespace only.
func mountAccount(dir string) error {
	// Mounts of the machine arrive here; those made here stay here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		if errors.Is(err, unix.EINVAL) {
			err = errChroot
		}
		return fmt.Errorf("separate the mounts from those of the machine: %w", err)
	}
	parent, missing, err := existing(kubeconfig.InClusterMount)
	if err != nil {
		return err
	}
	target := filepath.Join(parent, missing)
	if missing != "" {
		if err := cover(parent, filepath.Join(dir, stageDir)); err != nil {
			return err
		}
		if err := makeReadable(target); err != nil {
			return err
		}
	}
	if err := unix.Mount(filepath.Join(dir, accountDir), target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount at %s: %w", target, err)
	}
	return nil
}

// makeReadable makes a directory that all users can read: a program may become another
// user. The program keeps the umask of this process.
func makeReadable(path string) error {
	defer unix.Umask(unix.Umask(0o022))
	return os.MkdirAll(path, 0o755)
}

// existing returns the deepest directory of a path that exists, without symbolic links,
// and the rest of the path.
func existing(path string) (parent, missing string, err error) {
	for parent := path; ; parent = filepath.Dir(parent) {
		resolved, err := filepath.EvalSymlinks(parent)
		switch {
		case err == nil && resolved == "/" && missing != "":
			return "", "", fmt.Errorf("there is no directory /%s to mount in: make it", strings.SplitN(missing, "/", 2)[0])
		case err == nil:
			return resolved, missing, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", "", fmt.Errorf("find %s: %w", path, err)
		}
		missing = filepath.Join(filepath.Base(parent), missing)
	}
}

// cover mounts a new directory over dir, in which directories can be made. What is in dir
// is in the new one, too: mounts of its entries, and copies of symbolic links. The new
// directory is prepared at stage.
func cover(dir, stage string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := os.Mkdir(stage, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount a directory over %s: %w", dir, err)
	}
	for _, entry := range entries {
		err := repeat(entry, filepath.Join(dir, entry.Name()), filepath.Join(stage, entry.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			return fmt.Errorf("repeat %s: %w", filepath.Join(dir, entry.Name()), err)
		}
	}
	if err := unix.Mount(stage, dir, "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("mount a directory over %s: %w", dir, err)
	}
	return nil
}

// repeat makes what is at one path visible at another one.
func repeat(entry fs.DirEntry, from, to string) error {
	if entry.Type()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	if entry.IsDir() {
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
	} else if err := os.WriteFile(to, nil, 0o644); err != nil {
		return err
	}
	return unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
}
