package aggregation

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

var ref = endpoints.Reference{Namespace: "ns", Name: "svc"}

func TestReasons(t *testing.T) {
	wrap := func(err error) error { return &url.Error{Op: "Get", URL: "https://targets-1.svc.ns.svc", Err: err} }
	for _, test := range []struct {
		err  error
		want string
	}{
		{&endpoints.UnresolvedError{Reference: ref}, kube.ReasonNotFound},
		{&endpoints.ConnectError{Reference: ref}, kube.ReasonDiscovery},
		{&tls.CertificateVerificationError{Err: errors.New("x")}, kube.ReasonDiscovery},
		{context.DeadlineExceeded, kube.ReasonDiscovery},
	} {
		if got := reason(describe(time.Second, ref, "/apis", wrap(test.err))); got != test.want {
			t.Errorf("%v has the reason %s, want %s", test.err, got, test.want)
		}
	}
}

func TestMessagesStayTheSame(t *testing.T) {
	message := func(port int) string {
		source := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
		return describe(time.Second, ref, "/apis", &url.Error{Op: "Get", URL: "u", Err: &net.OpError{Op: "read", Net: "tcp", Source: source, Err: errors.New("reset")}}).Error()
	}
	if message(1) != message(2) {
		t.Errorf("the same failure reads %q and %q", message(1), message(2))
	}
}
