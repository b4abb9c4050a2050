package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// given are the addresses that this process has given out.
var given sync.Map

// FreeAddress is HOST:PORT on loopback that nobody listens on, with a port that
// the system does not give to whoever asks for any, and that no other test of
// this process has got: between here and its use only a test of another process
// can take it, once in some thousand times. It fails the test when it finds
// none.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(15000))
		listener, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		_ = listener.Close() // the port is free again
		if _, taken := given.LoadOrStore(address, true); !taken {
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}
