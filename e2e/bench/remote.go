package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	remoteGroup   = "remote.example.com"
	vanishedGroup = "vanished.example.com"
	// How long the broken servers are looked at: until they count as
	// unavailable, which takes up to 35 s, and as long as a server waits for
	// the OpenAPI of another.
	silence     = 40 * time.Second
	halfSilence = 75 * time.Second
	askEvery    = 100 * time.Millisecond
)

var remoteRows = []row{
	{name: "discovery with an aggregated server, slowest", unit: inSeconds},
	{name: "discovery while it is silent and another's packets vanish, slowest", unit: inSeconds},
	{name: "OpenAPI v3 at that time, slowest", unit: inSeconds},
	{name: "OpenAPI v3 while it answers discovery only, slowest", unit: inSeconds},
	{name: "warm start while it is silent, until ready", unit: inSeconds},
}

// What a remote server does.
const (
	answersAll int32 = iota
	answersDiscovery
	answersNothing
)

// remoteServer is an aggregated API server that can be made to fall silent: it
// takes requests and never answers them.
type remoteServer struct {
	*httptest.Server
	mode atomic.Int32
}

func newRemoteServer() *remoteServer {
	s := &remoteServer{}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.Server.Config.ErrorLog = log.New(io.Discard, "", 0) // the clients report the errors
	s.StartTLS()
	return s
}

func (s *remoteServer) stop() {
	s.CloseClientConnections()
	s.Close()
}

// ServeHTTP implements [http.Handler].
func (s *remoteServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mode := s.mode.Load()
	if mode == answersNothing || mode == answersDiscovery && !strings.HasPrefix(r.URL.Path, "/apis/"+remoteGroup) {
		<-r.Context().Done()
		return
	}
	var answer any
	switch r.URL.Path {
	case "/apis/" + remoteGroup + "/v1":
		answer = object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": remoteGroup + "/v1", "resources": []object{
			{"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": []string{"get"}}}}
	case "/openapi/v3":
		answer = object{"paths": object{}}
	case "/openapi/v2":
		answer = object{"swagger": "2.0", "info": object{"title": "remote", "version": "v1"}, "paths": object{}}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the figures show what is missing
}

// vanishing is a port whose queue of connections is full, so that the kernel
// drops what comes. close gives it back.
func vanishing() (address string, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return "", nil, fmt.Errorf("make a socket: %w", err)
	}
	var held []net.Conn
	release = func() {
		for _, connection := range held {
			_ = connection.Close() // nothing was sent on it
		}
		_ = syscall.Close(fd) // nor here
	}
	err = errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0))
	name, nameErr := syscall.Getsockname(fd)
	inet, ok := name.(*syscall.SockaddrInet4)
	if err = errors.Join(err, nameErr); err != nil || !ok {
		release()
		return "", nil, fmt.Errorf("listen on a socket: %w", err)
	}
	address = net.JoinHostPort("127.0.0.1", strconv.Itoa(inet.Port))
	for range 10 {
		connection, err := net.DialTimeout("tcp", address, 300*time.Millisecond)
		if err != nil {
			return address, release, nil
		}
		held = append(held, connection)
	}
	release()
	return "", nil, fmt.Errorf("a queue of no connections at %s has taken %d", address, len(held))
}

// measureRemote registers an aggregated server and one whose packets vanish,
// and looks at what others notice of it.
func measureRemote(ctx context.Context, b *bench, s side) (values []float64, err error) {
	remote := newRemoteServer()
	defer remote.stop()
	vanished, release, err := vanishing()
	if err != nil {
		return nil, err
	}
	defer release()
	dir, err := b.newDir(s.name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	c, err := s.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	values, err = askAround(ctx, c, s, remote, vanished)
	if err = errors.Join(err, c.stop()); err != nil {
		return nil, err
	}
	began := time.Now()
	if c, err = s.start(ctx, dir); err != nil {
		return nil, err
	}
	err = c.awaitReady(ctx)
	return append(values, since(began)), errors.Join(err, c.stop())
}

// askAround measures all but the start. It leaves the remote server silent and
// counting as available.
func askAround(ctx context.Context, c *cluster, s side, remote *remoteServer, vanished string) ([]float64, error) {
	client, err := newAPI(c.config)
	if err != nil {
		return nil, err
	}
	defer client.close()
	f := fixture{c, client}
	if err := f.register(ctx, s, remoteGroup, remote.Listener.Addr().String()); err != nil {
		return nil, err
	}
	if err := f.awaitAvailable(ctx); err != nil {
		return nil, err
	}
	const discovery, openAPI = "/apis", "/openapi/v3"
	healthy, err := f.slowest(ctx, 5*time.Second, discovery)
	if err != nil {
		return nil, err
	}
	remote.mode.Store(answersNothing)
	if err := f.register(ctx, s, vanishedGroup, vanished); err != nil {
		return nil, err
	}
	silent, err := f.slowest(ctx, silence, discovery, openAPI)
	if err != nil {
		return nil, err
	}
	remote.mode.Store(answersDiscovery)
	if err := f.awaitAvailable(ctx); err != nil {
		return nil, err
	}
	half, err := f.slowest(ctx, halfSilence, openAPI)
	remote.mode.Store(answersNothing)
	return []float64{healthy[0], silent[0], silent[1], half[0]}, err
}

// register makes an APIService whose server is at an address. The other side
// knows a Service by another name for that.
func (f fixture) register(ctx context.Context, s side, group, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	name := strings.SplitN(group, ".", 2)[0]
	path, body := "/apis/kube-hyper-mini.io/v1alpha1/namespaces/default/serviceendpoints", object{
		"apiVersion": "kube-hyper-mini.io/v1alpha1", "kind": "ServiceEndpoint", "metadata": object{"name": name},
		"spec": object{"targets": []string{"https://" + address}}}
	if s.name == theirs {
		path, body = "/api/v1/namespaces/default/services", object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": name},
			"spec": object{"type": "ExternalName", "externalName": "localhost"}}
	}
	if _, err := f.do(ctx, http.MethodPost, path, encode(body)); err != nil {
		return err
	}
	_, err = f.do(ctx, http.MethodPost, "/apis/apiregistration.k8s.io/v1/apiservices", encode(object{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": object{"name": "v1." + group},
		"spec": object{"group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15, "insecureSkipTLSVerify": true,
			"service": object{"namespace": "default", "name": name, "port": number}},
	}))
	return err
}

// awaitAvailable returns when the aggregator has the remote server's word.
func (f fixture) awaitAvailable(ctx context.Context) error {
	return f.await(ctx, "the aggregated server", func(ctx context.Context) error {
		return f.discard(ctx, http.MethodGet, "/apis/"+remoteGroup+"/v1", nil)
	})
}

// slowest requests each path again and again, without waiting for one answer
// before the next question, and returns the longest wait for each.
func (f fixture) slowest(ctx context.Context, span time.Duration, paths ...string) ([]float64, error) {
	longest := make([]atomic.Int64, len(paths))
	work, ctx := errgroup.WithContext(ctx)
	for began := time.Now(); time.Since(began) < span; {
		for i, path := range paths {
			work.Go(func() error {
				asked := time.Now()
				if err := f.discard(ctx, http.MethodGet, path, nil); err != nil {
					return err
				}
				for took := int64(time.Since(asked)); ; {
					known := longest[i].Load()
					if took <= known || longest[i].CompareAndSwap(known, took) {
						return nil
					}
				}
			})
		}
		if err := pause(ctx, askEvery); err != nil {
			break // the error is in work
		}
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	values := make([]float64, len(paths))
	for i := range longest {
		values[i] = time.Duration(longest[i].Load()).Seconds()
	}
	return values, nil
}
