package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// returnedPorts has the ports that FreePort has returned.
var returnedPorts sync.Map

// FreePort returns a TCP port that is free at 127.0.0.1, lies outside of the
// system's ephemeral range, and has not been returned before in this process. A
// test of another process can take it before its use; that happens about once
// in a thousand times. FreePort fails the test when it finds none.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 15000 + rand.IntN(15000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = listener.Close() // the port is free again
		if _, taken := returnedPorts.LoadOrStore(port, true); !taken {
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// FreeAddress is HOST:PORT on loopback with a [FreePort].
func FreeAddress(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", FreePort(t))
}
