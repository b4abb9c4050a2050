package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// endpointOf serves backups of the source to the user alice over HTTP/2.
func endpointOf(t *testing.T, recipients []string, produce func(Options) Produce) (*Endpoint, *httptest.Server, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	endpoint := NewEndpoint(recipients, produce, slog.New(slog.NewTextHandler(log, nil)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "alice"})))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return endpoint, server, log
}

func post(t *testing.T, server *httptest.Server, query string) (int, []byte) {
	t.Helper()
	response, err := server.Client().Post(server.URL+"?"+query, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}

// TestEndpointOmitsKeys: backups contain keys only if they are encrypted
// to the configured recipients; requests cannot change that.
func TestEndpointOmitsKeys(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "identity")
	put(t, file, identity.String()+"\n")
	source := server(t)
	for name, test := range map[string]struct {
		recipients []string
		query      string
		encrypted  bool
		keys       bool
	}{
		"no recipients":            {nil, "", false, false},
		"no recipients, not plain": {nil, "plain=false", false, false},
		"recipients":               {[]string{identity.Recipient().String()}, "", true, true},
		"recipients, not plain":    {[]string{identity.Recipient().String()}, "plain=false", true, true},
		"recipients, plain":        {[]string{identity.Recipient().String()}, "plain=true", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, server, log := endpointOf(t, test.recipients, func(options Options) Produce { return produce(source, options) })
			code, body := post(t, server, test.query)
			if code != http.StatusOK {
				t.Fatalf("%d %s", code, body)
			}
			if encrypted := bytes.HasPrefix(body, []byte(agePrefix)); encrypted != test.encrypted {
				t.Fatalf("encrypted: %v", encrypted)
			}
			content, err := Key{IdentityFile: file}.Decrypt(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			m, err := Read(content, nil)
			if err != nil {
				t.Fatal(err)
			}
			if keys := slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == "pki/ca.key" }); keys != test.keys {
				t.Errorf("it has the key: %v", keys)
			}
			if left := slices.Contains(m.LeftOut, "pki/ca.key"); left == test.keys {
				t.Errorf("left out: %v", m.LeftOut)
			}
			if !strings.Contains(log.String(), "user=alice") {
				t.Errorf("the log does not name the user:\n%s", log)
			}
		})
	}
}

func TestEndpointRefuses(t *testing.T) {
	broken := func(Options) Produce {
		return func(context.Context, io.Writer) error { return errors.New("no such disk") }
	}
	_, server, _ := endpointOf(t, nil, broken)
	if code, body := post(t, server, ""); code != http.StatusInternalServerError || !strings.Contains(string(body), "no such disk") {
		t.Errorf("a failure before the first byte: %d %s", code, body)
	}
	off := httptest.NewRecorder()
	(&Maker{config: MakerConfig{Backup: config.Backup{Endpoint: config.Off}}}).Endpoint().ServeHTTP(off, httptest.NewRequest(http.MethodPost, "/", nil))
	if off.Code != http.StatusForbidden || !strings.Contains(off.Body.String(), "backup.endpoint") {
		t.Errorf("switched off: %d %s", off.Code, off.Body)
	}
}

// TestStalledClients: those that do not read lose their streams, and further
// ones are refused while the number that is allowed is served.
func TestStalledClients(t *testing.T) {
	ended := make(chan error, maxStreams)
	endless := func(Options) Produce {
		return func(ctx context.Context, w io.Writer) error {
			chunk := make([]byte, 64<<10)
			for {
				if _, err := w.Write(chunk); err != nil {
					ended <- err
					return err
				}
			}
		}
	}
	stall := func(server *httptest.Server) error {
		response, err := server.Client().Post(server.URL, "", nil)
		if err == nil {
			t.Cleanup(func() { _ = response.Body.Close() }) // never read
		}
		return err
	}
	_, server, _ := endpointOf(t, nil, endless)
	for range maxStreams {
		if err := stall(server); err != nil {
			t.Fatal(err)
		}
	}
	if code, _ := post(t, server, ""); code != http.StatusTooManyRequests {
		t.Errorf("one more than there may be: %d", code)
	}
	server.CloseClientConnections()
	for range maxStreams {
		<-ended
	}

	endpoint, server, log := endpointOf(t, nil, endless)
	endpoint.timeout = 100 * time.Millisecond
	_ = stall(server) // on a slow machine the headers, too, come after the timeout
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the stream ended with %v", err)
	}
	server.Close() // waits for the handler
	if !strings.Contains(log.String(), "the client read less than") {
		t.Errorf("the log is\n%s", log)
	}
}

// TestComplete: what a backup without keys lacks is added from the data
// directory, and the result is as one that was made with keys.
func TestComplete(t *testing.T) {
	source := server(t)
	var bare, whole bytes.Buffer
	if _, err := Write(t.Context(), &bare, source, Options{Reason: ReasonManual, WithoutKeys: true}); err != nil {
		t.Fatal(err)
	}
	if err := Complete(t.Context(), bytes.NewReader(bare.Bytes()), &whole, Source{DataDir: source.DataDir, ConfigFiles: source.ConfigFiles}); err != nil {
		t.Fatal(err)
	}
	m, err := Read(&whole, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.LeftOut) > 0 || m.Reason != ReasonManual || m.Snapshot == nil {
		t.Errorf("the manifest is %+v", m)
	}
	for _, name := range []string{"pki/ca.key", "pki/ca.crt", "encryption/config.yaml", "etcd/snapshot.db", "config/config.yaml", "config/files/journal.credentialsFile"} {
		if !slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == name }) {
			t.Errorf("%s is missing", name)
		}
	}

	var nothing bytes.Buffer
	if err := Complete(t.Context(), bytes.NewReader(bare.Bytes()), &nothing, Source{DataDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if m, err := Read(&nothing, nil); err != nil || !slices.Contains(m.LeftOut, "pki/ca.key") {
		t.Errorf("without the keys at hand: %+v, %v", m, err)
	}
	if err := Complete(t.Context(), bytes.NewReader(bare.Bytes()[:bare.Len()/2]), io.Discard, source); !errors.Is(err, ErrDamaged) {
		t.Errorf("half a backup: %v", err)
	}
}

// TestCompleteAfterARotation: the keys are those of one moment, also when a rotation made and
// removed files after the server had listed those that it left out.
func TestCompleteAfterARotation(t *testing.T) {
	source := server(t)
	var bare, whole bytes.Buffer
	if _, err := Write(t.Context(), &bare, source, Options{Reason: ReasonManual, WithoutKeys: true}); err != nil {
		t.Fatal(err)
	}
	pki := filepath.Join(source.DataDir, "pki")
	if err := errors.Join(os.Remove(filepath.Join(pki, "ca.crt")), os.WriteFile(filepath.Join(pki, "ca-next.key"), []byte("next"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := Complete(t.Context(), bytes.NewReader(bare.Bytes()), &whole, Source{DataDir: source.DataDir, ConfigFiles: source.ConfigFiles}); err != nil {
		t.Fatal(err)
	}
	m, err := Read(&whole, nil)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, f := range m.Files {
		if strings.HasPrefix(f.Name, "pki/") {
			keys = append(keys, f.Name)
		}
	}
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"pki/ca-next.key", "pki/ca.key"}) || len(m.LeftOut) > 0 {
		t.Errorf("it has %q, and left out %q", keys, m.LeftOut)
	}
}

// TestSpooledIsCalledBeforeTheFirstByte: Spooled is called when nothing waits
// for the reader yet.
func TestSpooledIsCalledBeforeTheFirstByte(t *testing.T) {
	source := server(t)
	calls := 0
	w := &firstWrite{}
	source.Spooled = func() {
		calls++
		if w.begun {
			t.Error("something was written before")
		}
	}
	if _, err := Write(t.Context(), w, source, Options{}); err != nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

type firstWrite struct{ begun bool }

// Write implements io.Writer.
func (w *firstWrite) Write(p []byte) (int, error) {
	w.begun = true
	return len(p), nil
}
