package journal

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/journal/s3"
)

// bucket is an S3 server with one bucket, as much of it as the journal uses. It has object
// lock: objects need a sum, are never overwritten, and cannot be removed.
type bucket struct {
	*httptest.Server
	user, token string // that requests must have; empty accepts all

	mu      sync.Mutex
	objects map[string][]byte
	refuses string // an error code for each request
	denies  bool   // overwriting, without regard to conditions
	removed int    // refused removals
}

func startBucket(t *testing.T) *bucket {
	t.Helper()
	b := &bucket{objects: map[string][]byte{}}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

// store returns the store of the bucket.
func (b *bucket) store(t *testing.T, credentialsFile string) Store {
	t.Helper()
	store, err := s3.New(s3.Location{URL: "s3://journal/mini", Endpoint: b.URL, Region: "us-east-1", CredentialsFile: credentialsFile}, fetchers)
	if err != nil {
		t.Fatal(err)
	}
	return bounded{store}
}

// s3Problem is the body of a refusal.
type s3Problem struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(s3Problem{Code: code, Message: "refused by the test"}) // the client sees what is missing
}

// ServeHTTP implements [http.Handler].
func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/journal"), "/")
	switch {
	case b.refuses != "":
		refuse(w, http.StatusForbidden, b.refuses)
	case b.user != "" && (!strings.Contains(r.Header.Get("Authorization"), "Credential="+b.user+"/") || r.Header.Get("X-Amz-Security-Token") != b.token):
		refuse(w, http.StatusForbidden, "InvalidAccessKeyId")
	case r.Method == http.MethodPut:
		b.put(w, r, name)
	case r.Method == http.MethodDelete:
		b.removed++
		refuse(w, http.StatusForbidden, "AccessDenied")
	case name == "":
		b.list(w, r)
	default:
		data, exists := b.objects[name]
		if !exists {
			refuse(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		w.Header().Set("ETag", `"etag"`)
		_, _ = w.Write(data) // the client sees what is missing
	}
}

func (b *bucket) put(w http.ResponseWriter, r *http.Request, name string) {
	data, err := unchunked(r)
	sum := md5.Sum(data)
	_, exists := b.objects[name]
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, "IncompleteBody")
	case r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]):
		refuse(w, http.StatusBadRequest, "InvalidRequest")
	case r.Header.Get("If-None-Match") != "*":
		refuse(w, http.StatusForbidden, "AccessDenied")
	case exists && b.denies:
		refuse(w, http.StatusForbidden, "AccessDenied")
	case exists:
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
	default:
		b.objects[name] = data
		w.Header().Set("ETag", `"etag"`)
	}
}

// unchunked reads a body that is signed chunk by chunk.
func unchunked(r *http.Request) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return io.ReadAll(r.Body)
	}
	var data bytes.Buffer
	for body := bufio.NewReader(r.Body); ; {
		line, err := body.ReadString('\n')
		if err != nil {
			return nil, err
		}
		length, _, _ := strings.Cut(line, ";")
		size, err := strconv.ParseInt(length, 16, 64)
		if err != nil {
			return nil, err
		}
		if size == 0 {
			return data.Bytes(), nil
		}
		if _, err := io.CopyN(&data, body, size); err != nil {
			return nil, err
		}
		if _, err := body.Discard(2); err != nil {
			return nil, err
		}
	}
}

type listedObject struct {
	Key  string
	Size int
	ETag string
}

type listedPrefix struct{ Prefix string }

func (b *bucket) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	result := struct {
		XMLName        xml.Name `xml:"ListBucketResult"`
		Contents       []listedObject
		CommonPrefixes []listedPrefix
	}{}
	var names []string
	for name := range b.objects {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		rest, below := strings.CutPrefix(name, query.Get("prefix"))
		if !below || name <= query.Get("start-after") {
			continue
		}
		if folder, _, nested := strings.Cut(rest, "/"); nested && query.Get("delimiter") == "/" {
			prefix := listedPrefix{query.Get("prefix") + folder + "/"}
			if !slices.Contains(result.CommonPrefixes, prefix) {
				result.CommonPrefixes = append(result.CommonPrefixes, prefix)
			}
			continue
		}
		result.Contents = append(result.Contents, listedObject{name, len(b.objects[name]), fmt.Sprintf("\"%x\"", md5.Sum(b.objects[name]))})
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(result) // the client sees what is missing
}

func (b *bucket) refuse(code string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuses = code
}

// credentialsIn writes a file of the AWS tools.
func credentialsIn(t *testing.T, user string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(path, fmt.Appendf(nil, "[default]\naws_access_key_id = %s\naws_secret_access_key = secret\n", user), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestObjectLock: a journal goes on in a bucket that lets nothing be overwritten or
// removed. The account says that old parts stay.
func TestObjectLock(t *testing.T) {
	t.Parallel()
	for _, denies := range []bool{false, true} {
		t.Run(fmt.Sprintf("denies=%t", denies), func(t *testing.T) {
			t.Parallel()
			journalsWithLock(t, denies)
		})
	}
}

func journalsWithLock(t *testing.T, denies bool) {
	t.Helper()
	b := startBucket(t)
	b.user, b.denies = "writer", denies
	store := b.store(t, credentialsIn(t, "writer"))
	var recorded recorder
	f := start(t, store, t.TempDir(), func(c *Config) { c.Record = recorded.record })
	f.history(2)
	f.caughtUp()
	f.stopWriter()
	for range 4 {
		f.makeBase()
	}
	s := f.makeBase()
	s.w.config.Retention = 2 * time.Nanosecond
	s.removeOld(t.Context())
	if a := f.writer.Account(t.Context()); !strings.Contains(a.Warning, "old parts of the journal stay") || !strings.Contains(a.Warning, "refused by the test") || b.removed == 0 {
		t.Errorf("after %d refused removals: %+v", b.removed, a)
	}
	recorded.wants(t, "JournalNotShortened")
	f.startWriter()
	f.history(2)
	f.caughtUp()
	restoresAll(t, f, store)
	if chains := claims(t, store); len(chains) != 1 || len(chains[0].Bases) != 6 {
		t.Errorf("chains: %+v", chains)
	}
}

// TestRefusedRequests: the account has the reason and the remedy, and the journal catches
// up.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"RequestTimeTooSkewed": "this machine's clock differs too much from the server's: set it",
		"InvalidAccessKeyId":   "check the credentials (journal.credentialsFile",
		"AccessDenied":         "check the credentials (journal.credentialsFile",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			b := startBucket(t)
			store := b.store(t, credentialsIn(t, "writer"))
			f := start(t, store, t.TempDir(), nil)
			f.caughtUp()
			b.refuse(code)
			f.history(1)
			await(t, "the account has the error", func() error {
				if a := f.writer.Account(t.Context()); !strings.Contains(a.Error, want) || a.LagRevisions == 0 || a.SpoolBytes == 0 {
					return fmt.Errorf("%+v", a)
				}
				return nil
			})
			b.refuse("")
			f.caughtUp()
			restoresAll(t, f, store)
		})
	}
}

// TestCorrectedCredentials: the journal catches up when the file with the credentials has
// been corrected.
func TestCorrectedCredentials(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]string{"missing": "", "another user": "stranger"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBucket(t)
			b.user = "writer"
			file := credentialsIn(t, wrong)
			if wrong == "" {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			store := b.store(t, file)
			if _, err := store.Open(t.Context(), "a"); err == nil || isMissing(err) || !strings.Contains(err.Error(), "credentials") {
				t.Errorf("reading says %v", err)
			}
			f := start(t, store, t.TempDir(), nil)
			f.history(1)
			await(t, "the account has the error", func() error {
				if a := f.writer.Account(t.Context()); a.Error == "" || a.Chain != 0 {
					return fmt.Errorf("%+v", a)
				}
				return nil
			})
			if err := os.Rename(credentialsIn(t, "writer"), file); err != nil {
				t.Fatal(err)
			}
			f.caughtUp()
			restoresAll(t, f, store)
		})
	}
}

// TestInstanceMetadata: without a file and variables, the credentials are those of the
// role of the instance.
func TestInstanceMetadata(t *testing.T) {
	var asked []string
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			_, _ = io.WriteString(w, "session")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "session":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/latest/meta-data/iam/security-credentials/":
			_, _ = io.WriteString(w, "journaler\n")
		case r.URL.Path == "/latest/meta-data/iam/security-credentials/journaler":
			_, _ = fmt.Fprintf(w, `{"Code":"Success","AccessKeyId":"role","SecretAccessKey":"secret","Token":"temporary","Expiration":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer metadata.Close()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.URL)
	b := startBucket(t)
	b.user, b.token = "role", "temporary"
	store := b.store(t, "")
	if err := store.Create(t.Context(), "a", strings.NewReader("x"), 1); err != nil {
		t.Fatalf("%v, after %q", err, asked)
	}
	if err := store.Create(t.Context(), "a", strings.NewReader("y"), 1); !errors.Is(err, ErrExists) {
		t.Errorf("the second creation says %v", err)
	}
	if data, err := readAll(context.WithoutCancel(t.Context()), store, "a", 10); err != nil || string(data) != "x" {
		t.Errorf("the content is %q, %v", data, err)
	}
}
