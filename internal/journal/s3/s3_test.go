package s3

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

// bucket returns a store whose server answers with the handler. Credentials are those of the
// file; without one, of the instance.
func bucket(t *testing.T, credentials string, answer http.HandlerFunc) journal.Store {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	store, err := open(journal.Location{URL: "s3://journal/mini", Endpoint: server.URL, Region: "us-east-1",
		CredentialsFile: credentials}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// credentialsIn writes a file of the AWS tools.
func credentialsIn(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials")
	text := "[default]\naws_access_key_id = writer\naws_secret_access_key = secret\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	type problem struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
	}
	_ = xml.NewEncoder(w).Encode(problem{Code: code}) // the client sees what is missing
}

// TestRefusedRequests: errors have the remedy.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"RequestTimeTooSkewed": "this machine's clock differs too much from the server's: set it",
		"InvalidAccessKeyId":   "check the credentials (journal.credentialsFile",
		"NoSuchBucket":         "make the bucket",
	} {
		store := bucket(t, credentialsIn(t), func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusForbidden, code)
		})
		err := store.Create(t.Context(), "a", strings.NewReader("x"), 1)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestCreateOnce: a name that is taken is ErrExists, also where the server denies access to a
// locked object, whatever the condition. Objects have a sum, which a locked bucket demands.
func TestCreateOnce(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"PreconditionFailed", "AccessDenied"} {
		store := bucket(t, credentialsIn(t), func(w http.ResponseWriter, r *http.Request) {
			switch taken := strings.HasSuffix(r.URL.Path, "/mini/taken"); {
			case r.Method == http.MethodPut && r.Header.Get("Content-Md5") == "":
				refuse(w, http.StatusBadRequest, "InvalidRequest")
			case r.Method == http.MethodPut && r.Header.Get("If-None-Match") == "*" && taken:
				refuse(w, http.StatusForbidden, code)
			case r.Method == http.MethodPut || taken:
				w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
				w.Header().Set("ETag", `"etag"`)
			default:
				refuse(w, http.StatusNotFound, "NoSuchKey")
			}
		})
		if err := store.Create(t.Context(), "new", strings.NewReader("x"), 1); err != nil {
			t.Errorf("%s: a new object: %v", code, err)
		}
		if err := store.Create(t.Context(), "taken", strings.NewReader("x"), 1); !errors.Is(err, journal.ErrExists) {
			t.Errorf("%s: an object that exists: %v", code, err)
		}
	}
}

// TestMissingCredentials: without its file, an object is not taken for missing.
func TestMissingCredentials(t *testing.T) {
	t.Parallel()
	store := bucket(t, filepath.Join(t.TempDir(), "credentials"), func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "NoSuchKey")
	})
	_, err := store.Open(t.Context(), "a")
	if err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("reading says %v", err)
	}
}

// TestStalled: a connection over which nothing comes fails, and one that only sends does not.
func TestStalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		conn := &connection{ours, time.Second}
		read := make(chan error, 1)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			read <- err
		}()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		for range 10 {
			<-time.After(900 * time.Millisecond)
			if _, err := conn.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// TestContainerCredentials: without a file and variables with keys, the credentials are those
// of the role of the container.
func TestContainerCredentials(t *testing.T) {
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/role" || r.Header.Get("Authorization") != "session" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprintf(w, `{"Code":"Success","AccessKeyId":"role","SecretAccessKey":"secret","Token":"temporary",`+
			`"Expiration":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	defer metadata.Close()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", metadata.URL+"/role")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "session")
	store := bucket(t, "", func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "Credential=role/") ||
			r.Header.Get("X-Amz-Security-Token") != "temporary" {
			refuse(w, http.StatusForbidden, "InvalidAccessKeyId")
		}
		w.Header().Set("ETag", `"etag"`)
	})
	if err := store.Create(t.Context(), "a", strings.NewReader("x"), 1); err != nil {
		t.Error(err)
	}
}
