package appliance

import (
	"net"

	"golang.org/x/net/netutil"
)

// connectionShare of the files that the process may open are for connections
// of clients; at the limit, further clients wait to be accepted. The others are
// for what must go on: etcd gives up when it cannot open the next file of its
// log.
const connectionShare, connectionShareOf = 3, 4

// bounded bounds how many connections the listener accepts at a time.
func bounded(listener net.Listener) net.Listener {
	files, ok := fileLimit()
	if !ok {
		return listener
	}
	return netutil.LimitListener(listener, max(files/connectionShareOf*connectionShare, 1))
}
