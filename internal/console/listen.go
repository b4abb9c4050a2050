package console

import (
	"errors"
	"fmt"
	"net"
)

// listenTries bounds the search for a port that is free in both families.
const listenTries = 10

// listen opens a port of both addresses of loopback: a browser tries either for a name
// under localhost, and another user of the machine could listen on the other one.
func listen(port int) ([]net.Listener, error) {
	for try := 1; ; try++ {
		listeners, err := listenBoth(port)
		if err == nil {
			return listeners, nil
		}
		if port != 0 || try == listenTries {
			return nil, fmt.Errorf("listen for the browser on port %d of loopback: %w; choose another with --port", port, err)
		}
	}
}

func listenBoth(port int) ([]net.Listener, error) {
	four, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	if free, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		return []net.Listener{four}, nil // a machine without IPv6
	} else if err := free.Close(); err != nil {
		return nil, errors.Join(err, four.Close())
	}
	six, err := net.Listen("tcp6", fmt.Sprintf("[::1]:%d", portOf(four)))
	if err != nil {
		return nil, errors.Join(err, four.Close())
	}
	return []net.Listener{four, six}, nil
}

func portOf(listener net.Listener) int { return listener.Addr().(*net.TCPAddr).Port }
