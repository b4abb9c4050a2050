//go:build !linux

package incluster

import (
	"errors"
	"runtime"
	"syscall"

	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
)

func supported() error {
	return errors.New("in-cluster needs the mount namespaces of Linux, and this is " + runtime.GOOS +
		": give COMMAND a kubeconfig (kube-hyper-mini kubeconfig create), or run it in a container that has the " +
		"directory of kubeconfig create --in-cluster-env at " + kubeconfig.InClusterMount)
}

func namespaces() []*syscall.SysProcAttr { return nil }

func mountNamespace() (string, error) { return "", supported() }

// Enter returns an error: the command exists on Linux only.
func Enter(string, string, string, []string) error { return supported() }
