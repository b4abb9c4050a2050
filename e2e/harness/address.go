package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// given are the ports that this process has given out.
var given sync.Map

// FreePort is a TCP port that nobody listens on at 127.0.0.1, that the system
// does not give to whoever asks for any, and that no other test of this process
// has got: between here and its use only a test of another process can take it,
// once in some thousand times. It fails the test when it finds none.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 15000 + rand.IntN(15000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = listener.Close() // the port is free again
		if _, taken := given.LoadOrStore(port, true); !taken {
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
