package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// mountPoint is where client-go looks (rest.InClusterConfig).
const mountPoint = "/var/run/secrets/kubernetes.io/serviceaccount"

// TestMain is also the program that mounts the account for a controller and
// becomes it; see inCluster.
func TestMain(m *testing.M) {
	if dir := os.Getenv("MOUNT_ACCOUNT"); dir != "" {
		fmt.Fprintln(os.Stderr, errors.Join(mount(dir), syscall.Exec(os.Args[1], os.Args[1:], os.Environ())))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// inCluster runs a program as a container would with the account's directory
// mounted and its env file given: in a mount namespace of its own. Where this
// user may not make one, the program gets the kubeconfig.
func inCluster(t *testing.T, account, kubeconfig, program string, args ...string) *exec.Cmd {
	t.Helper()
	probe := exec.Command("/proc/self/exe", "-test.run=^$")
	probe.SysProcAttr = namespaces()
	if err := probe.Run(); err != nil {
		t.Logf("no mount namespace (%v): the second instance gets a kubeconfig as well", err)
		return exec.Command(program, append(args, "--kubeconfig", kubeconfig)...)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env, err := os.ReadFile(filepath.Join(account, "env"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{program}, args...)...)
	cmd.Env = append(os.Environ(), strings.Fields(string(env))...)
	cmd.Env = append(cmd.Env, "MOUNT_ACCOUNT="+account, "KUBECONFIG=")
	cmd.SysProcAttr = namespaces()
	return cmd
}

// namespaces are the least in which this user may mount.
func namespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// mount makes the account's files visible at mountPoint, to this process only.
func mount(account string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("leave the machine's mounts alone: %w", err)
	}
	run, err := filepath.EvalSymlinks("/var/run")
	if err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", run, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount over %s: %w", run, err)
	}
	return os.CopyFS(mountPoint, os.DirFS(account))
}
