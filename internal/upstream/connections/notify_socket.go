package connections

import (
	"fmt"
	"os"
)

// Upstream fact: the API server notifies systemd itself
//
// Mirrors: k8s.io/apiserver/pkg/server.preparedGenericAPIServer.NonBlockingRunWithContext
//   github.com/coreos/go-systemd/v22/daemon.SdNotify
// Why: it sends READY=1 before the controllers run, and unsets NOTIFY_SOCKET.
//   TakeNotifySocket removes the variable first.
// Gain: systemd starts dependent units when the server is ready.
// Breaks: systemd gets READY=1 too early. TestServiceManager fails.

const notifySocket = "NOTIFY_SOCKET"

// TakeNotifySocket returns the path of the service manager's socket, empty without one,
// and removes it from the environment, so that the API server does not find it.
func TakeNotifySocket() (path string, err error) {
	path = os.Getenv(notifySocket)
	if err := os.Unsetenv(notifySocket); err != nil {
		return path, fmt.Errorf("remove %s from the environment: %w", notifySocket, err)
	}
	return path, nil
}
