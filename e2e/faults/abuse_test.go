package faults

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// attacker sends malformed and abusive requests.
type attacker struct {
	address string
	tls     *tls.Config  // without a client certificate
	admin   *http.Client // as the administrator
	url     string
	// worst is the first answer with a status of 500 or above, other than about a timeout.
	worst atomic.Pointer[string]
}

func newAttacker(t *testing.T, s *harness.Server) *attacker {
	t.Helper()
	config := s.RESTConfig()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &attacker{
		address: strings.TrimPrefix(config.Host, "https://"), url: config.Host, admin: client,
		tls: &tls.Config{InsecureSkipVerify: true}, // it does not care who it talks to
	}
}

// attacks send one malformed or unusual request each. Their errors are
// expected.
func (a *attacker) attacks() []func() {
	const maps = "/api/v1/namespaces/default/configmaps"
	huge := strings.Repeat("x", 4<<20)
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		return b
	}
	post := func(contentType string, body []byte) func() {
		return func() { a.ask(http.MethodPost, maps, contentType, body) }
	}
	patch := func(contentType string, body string) func() {
		return func() { a.ask(http.MethodPatch, maps+"/kube-root-ca.crt", contentType, []byte(body)) }
	}
	get := func(path string) func() { return func() { a.ask(http.MethodGet, path, "", nil) } }
	return []func(){
		// Below HTTP.
		func() { a.raw(false, noise(200)) },
		func() { a.raw(false, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) },
		func() { a.raw(true, noise(2000)) },
		func() { a.raw(true, []byte("GET "+strings.Repeat("/x", 1<<19)+" HTTP/1.1\r\nHost: x\r\n\r\n")) },
		func() { a.raw(true, []byte("GET / HTTP/1.1\r\nHost: x\r\nX: "+huge[:2<<20]+"\r\n\r\n")) },
		func() {
			a.raw(true, []byte("POST "+maps+" HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"))
		},
		func() { a.raw(true, append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), noise(4000)...), "h2") },
		func() { a.raw(true, resets(), "h2") },
		// Bodies.
		post("application/json", []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"huge"},"data":{"k":"`+huge+`"}}`)),
		post("application/json", []byte(`{"metadata":`)),
		post("application/json", []byte(strings.Repeat("[", 1<<20))),
		post("application/json", []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a\ud800\u0000"},"data":{"`+"\xff\xfe"+`":1}}`)),
		post("application/yaml", []byte("a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n")),
		func() { post("application/json", noise(3000))() },
		func() { post("application/vnd.kubernetes.protobuf", append([]byte("k8s\x00"), noise(3000)...))() },
		func() { post("application/cbor", noise(3000))() },
		post("text/html; charset=\xff", []byte("<html>")),
		patch("application/json-patch+json", "["+strings.Repeat(`{"op":"copy","from":"/data","path":"/data/x"},`, 20000)+`{"op":"test"}]`),
		patch("application/json-patch+json", `[{"op":"remove","path":"/metadata/`+strings.Repeat("~", 1000)+`"}]`),
		patch("application/merge-patch+json", `{"data":{"x":[{}]},"metadata":null}`),
		patch("application/strategic-merge-patch+json", `{"$patch":"replace","data":{"$retainKeys":["a"],"$deleteFromPrimitiveList/x":5}}`),
		patch("application/apply-patch+yaml", "\xff: ["),
		// Paths and queries.
		get("/api/v1/namespaces/%00/../%2e%2e/configmaps/%ff"),
		get("/apis/" + strings.Repeat("a/", 5000)),
		get(maps + "?limit=-1&continue=%ff%00&resourceVersion=abc&resourceVersionMatch=Never"),
		get(maps + "?fieldSelector=" + strings.Repeat("metadata.name%3Dx,", 2000)),
		get(maps + "?labelSelector=%28%28%28a%20in%20%28" + strings.Repeat("b,", 5000)),
		get(maps + "?watch=maybe&timeoutSeconds=99999999999999999999"),
		get("/openapi/v3/%2e%2e?hash=" + huge[:1<<19]),
		func() { a.ask(huge[:1<<16], maps, "", nil) },
		func() {
			a.ask(http.MethodDelete, maps, "application/json", []byte(`{"dryRun":["Never"],"preconditions":{"uid":5}}`))
		},
	}
}

// ask sends a request as the administrator and reads the answer.
func (a *attacker) ask(method, path, contentType string, body []byte) {
	request, err := http.NewRequest(method, a.url+path, bytes.NewReader(body))
	if err != nil {
		return // Go's client refuses it
	}
	request.Header.Set("Content-Type", contentType)
	response, err := a.admin.Do(request)
	if err != nil {
		return
	}
	answer, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // may be empty or cut off
	_ = response.Body.Close()                                     // the answer was read
	slow := response.StatusCode == http.StatusGatewayTimeout || bytes.Contains(answer, []byte("etcdserver: request timed out"))
	if response.StatusCode >= http.StatusInternalServerError && !slow {
		text := fmt.Sprintf("%.20s %.100s %s: %s %s", method, path, contentType, response.Status, answer)
		a.worst.CompareAndSwap(nil, &text)
	}
}

// raw sends bytes, and waits until the server responds or closes the connection.
func (a *attacker) raw(encrypted bool, data []byte, protocols ...string) {
	connection, err := a.dial(encrypted, protocols...)
	if err != nil {
		return
	}
	defer func() { _ = connection.Close() }()                   // the test does not need an orderly close
	_ = connection.SetDeadline(time.Now().Add(2 * time.Second)) // does not fail on an open connection
	_, _ = connection.Write(data)                               // the server may have closed the connection
	_, _ = io.CopyN(io.Discard, connection, 4<<10)
}

func (a *attacker) dial(encrypted bool, protocols ...string) (net.Conn, error) {
	if !encrypted {
		return net.Dial("tcp", a.address)
	}
	config := a.tls.Clone()
	config.NextProtos = protocols
	return tls.Dial("tcp", a.address, config)
}

// resets begin requests of HTTP/2 and cancel them at once, hundreds of times.
func resets() []byte {
	var b bytes.Buffer
	b.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	// :method GET, :scheme https, :path /, from HPACK's static table.
	for stream := uint32(1); stream < 999; stream += 2 {
		id := []byte{byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}
		b.Write(append(append([]byte{0, 0, 3, 1, 5}, id...), 0x82, 0x87, 0x84))
		b.Write(append(append([]byte{0, 0, 4, 3, 0}, id...), 0, 0, 0, 8))
	}
	return b.Bytes()
}

// sendSlowly opens a connection and sends a request a byte at a time until ctx
// ends.
func (a *attacker) sendSlowly(ctx context.Context, text string) {
	for ctx.Err() == nil {
		connection, err := a.dial(true)
		if err != nil {
			continue
		}
		for i := 0; err == nil && ctx.Err() == nil; i++ {
			_, err = connection.Write([]byte{text[i%len(text)]})
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		_ = connection.Close() // the test does not need an orderly close
	}
}

// attack makes that many attacks, 16 at a time.
func (a *attacker) attack(requests int) {
	attacks := a.attacks()
	var next atomic.Int64
	var attacking sync.WaitGroup
	for range 16 {
		attacking.Go(func() {
			for i := int(next.Add(1)) - 1; i < requests; i = int(next.Add(1)) - 1 {
				attacks[i%len(attacks)]()
			}
		})
	}
	attacking.Wait()
}

// TestAbuse: malformed and slow requests do not affect other clients.
func TestAbuse(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	a := newAttacker(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	var slow sync.WaitGroup
	for i := range 100 {
		text := "GET / HTTP/1.1\r\nHost: x\r\nX-Header: "
		if i%2 == 0 {
			text = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n{"
		}
		slow.Go(func() { a.sendSlowly(ctx, text) })
	}
	const good = 3
	served, failed := make([]atomic.Int64, good), make(chan error, good)
	var serving sync.WaitGroup
	for i := range good {
		client := s.Client().CoreV1().ConfigMaps("default")
		serving.Go(func() {
			for ctx.Err() == nil {
				if err := useAPI(t.Context(), client, fmt.Sprintf("good-%d", i)); err != nil {
					failed <- err
					return
				}
				served[i].Add(1)
			}
		})
	}

	requests := count(t, "FAULT_REQUESTS", 500)
	a.attack(requests)
	harness.Eventually(t, "each good client was served 10 times during the attack", func() error {
		if len(failed) > 0 {
			return nil
		}
		for i := range served {
			if n := served[i].Load(); n < 10 {
				requests += 100
				a.attack(100)
				return fmt.Errorf("good client %d was served %d times", i, n)
			}
		}
		return nil
	})
	cancel()
	serving.Wait()
	slow.Wait()

	close(failed)
	for err := range failed {
		t.Errorf("a good client was not served: %v", err)
	}
	if worst := a.worst.Load(); worst != nil {
		t.Errorf("a bad request is answered as if the server were to blame: %s", *worst)
	}
	if strings.Contains(s.Log(), "panic") {
		t.Error("the server panicked; see its log")
	}
	// Upstream logs a line for each client that disconnects during an answer.
	if lines := len(harness.WithoutSlowness(s.Log())) - strings.Count(s.Log(), "Timeout or abort while handling"); lines > 100+requests/10 {
		t.Errorf("bad requests fill the log: %d lines", lines)
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
}

// useAPI creates, updates, reads and deletes a config map.
func useAPI(ctx context.Context, maps typedcorev1.ConfigMapInterface, name string) error {
	created, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Data = map[string]string{"k": "v"}
	if _, err := maps.Update(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if got, err := maps.Get(ctx, name, metav1.GetOptions{}); err != nil || got.Data["k"] != "v" {
		return fmt.Errorf("read %v: %w", got, err)
	}
	return maps.Delete(ctx, name, metav1.DeleteOptions{})
}
