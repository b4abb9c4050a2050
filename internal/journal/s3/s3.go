package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

func init() { journal.OpenBucket = open }

// store stores objects in a bucket. Objects are created with If-None-Match.
type store struct {
	client      *minio.Client
	credentials *credentials.Credentials
	bucket      string
	prefix      string // empty, or ends with a slash
	url         string
}

const (
	// awsEndpoint is used when no endpoint is configured.
	awsEndpoint = "https://s3.amazonaws.com"
	// maxPut is the largest size of an object in one request. The client completes larger
	// ones, in parts, without the condition that their name is new.
	maxPut   = 5 << 30
	partSize = 64 << 20
	// retries is how often the client sends a request. The writer repeats the
	// operation, which a restore does not.
	retries = 5
	// timeout bounds the time until the header of an answer, and stalled the time in which a
	// connection transfers nothing.
	timeout = 30 * time.Second
	stalled = time.Minute
)

// connection fails when nothing is transferred for some time, in either direction.
type connection struct {
	net.Conn
	stalled time.Duration
}

// Read implements [net.Conn].
func (c *connection) Read(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.stalled)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write implements [net.Conn].
func (c *connection) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.stalled)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// open is a [journal.OpenBucket].
func open(l journal.Location, readers int) (journal.Store, error) {
	target, err := url.Parse(l.URL)
	if err != nil || target.Host == "" || target.RawQuery != "" || target.User != nil {
		return nil, fmt.Errorf("%q is not a destination in S3: write s3://BUCKET or s3://BUCKET/PREFIX", l.URL)
	}
	endpoint := cmp.Or(l.Endpoint, awsEndpoint)
	server, err := url.Parse(endpoint)
	if err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" ||
		strings.Trim(server.Path, "/") != "" {
		return nil, fmt.Errorf("%q is not the endpoint of an S3 server: write https://HOST[:PORT]", endpoint)
	}
	transport, err := minio.DefaultTransport(server.Scheme == "https")
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", endpoint, err)
	}
	transport.ResponseHeaderTimeout = timeout
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &connection{conn, stalled}, nil
	}
	transport.MaxIdleConnsPerHost = readers
	from := credentialsFrom(l.CredentialsFile)
	client, err := minio.New(server.Host, &minio.Options{
		Creds: from, Secure: server.Scheme == "https", Region: l.Region, Transport: transport, MaxRetries: retries,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", endpoint, err)
	}
	prefix := strings.Trim(target.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &store{client: client, credentials: from, bucket: target.Host, prefix: prefix,
		url: strings.TrimSuffix("s3://"+target.Host+"/"+prefix, "/")}, nil
}

// credentialsFrom reads the file, if there is one, or else the environment, the
// user's file of the AWS tools, and the metadata of the instance or the container.
func credentialsFrom(file string) *credentials.Credentials {
	if file != "" {
		return credentials.New(&credentials.FileAWSCredentials{Filename: file})
	}
	return credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{}, &credentials.IAM{}})
}

// String implements [journal.Store].
func (s *store) String() string { return s.url }

// failed describes an error of the client.
func (s *store) failed(ctx context.Context, operation, name string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New(err.Error()) // the credentials file is missing, not the object
	}
	advice := ""
	if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
		err = fmt.Errorf("the server does not answer: %w", err)
	}
	switch minio.ToErrorResponse(err).Code {
	case minio.NoSuchKey:
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case minio.NoSuchBucket:
		advice = "; make the bucket, the server does not"
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken",
		"AccountProblem", "AllAccessDisabled":
		s.credentials.Expire() // the next request reads them again
		advice = "; check the credentials (journal.credentialsFile, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or " +
			"the role of the instance), which must be allowed to get, put, list and delete objects"
	case "RequestTimeTooSkewed":
		advice = "; this machine's clock differs too much from the server's: set it, with a time service as chrony or " +
			"systemd-timesyncd"
	}
	return fmt.Errorf("%s %s/%s: %w%s", operation, s.url, name, err, advice)
}

// Create implements [journal.Store].
func (s *store) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	// Buckets with object lock refuse objects without a sum.
	options := minio.PutObjectOptions{PartSize: partSize, NumThreads: 1, DisableMultipart: size <= maxPut,
		SendContentMd5: true, ContentType: "application/octet-stream"}
	options.SetMatchETagExcept("*")
	if size > maxPut {
		if _, err := s.client.StatObject(ctx, s.bucket, s.prefix+name, minio.StatObjectOptions{}); err == nil {
			return journal.ErrExists
		}
	}
	info, err := s.client.PutObject(ctx, s.bucket, s.prefix+name, body, size, options)
	if err != nil {
		if s.isTaken(ctx, name, minio.ToErrorResponse(err)) {
			return journal.ErrExists
		}
		return s.failed(ctx, "write", name, err)
	}
	if info.Size != size {
		return fmt.Errorf("write %s/%s: %d bytes of %d were stored", s.url, name, info.Size, size)
	}
	return nil
}

// isTaken reports whether an object was refused because its name is taken. With object
// lock a server may answer that access is denied, whatever the condition.
func (s *store) isTaken(ctx context.Context, name string, refusal minio.ErrorResponse) bool {
	if refusal.StatusCode == http.StatusPreconditionFailed || refusal.Code == minio.PreconditionFailed {
		return true
	}
	if refusal.Code != minio.AccessDenied {
		return false
	}
	_, err := s.client.StatObject(ctx, s.bucket, s.prefix+name, minio.StatObjectOptions{})
	return err == nil
}

// Open implements [journal.Store].
func (s *store) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	body, info, err := s.get(ctx, name, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	return &resumed{ctx: ctx, from: body, size: info.Size, open: func(offset int64) (io.ReadCloser, error) {
		options := minio.GetObjectOptions{}
		if offset > 0 {
			options.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		}
		body, _, err := s.get(ctx, name, options)
		return body, err
	}}, nil
}

// get begins to read an object. GetObject of the client would make two requests.
func (s *store) get(ctx context.Context, name string,
	options minio.GetObjectOptions) (io.ReadCloser, minio.ObjectInfo, error) {
	object, info, _, err := minio.Core{Client: s.client}.GetObject(ctx, s.bucket, s.prefix+name, options)
	return object, info, s.failed(ctx, "read", name, err)
}

// List implements [journal.Store].
func (s *store) List(ctx context.Context, prefix, after string) ([]journal.Object, error) {
	options := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}
	if after != "" {
		options.StartAfter = s.prefix + after
	}
	var objects []journal.Object
	infos, err := s.list(ctx, prefix, options)
	for _, info := range infos {
		objects = append(objects, journal.Object{Name: strings.TrimPrefix(info.Key, s.prefix), SizeBytes: info.Size})
	}
	return objects, err
}

// Folders implements [journal.Store].
func (s *store) Folders(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	infos, err := s.list(ctx, prefix, minio.ListObjectsOptions{Prefix: s.prefix + prefix})
	for _, info := range infos {
		if name, folder := strings.CutSuffix(strings.TrimPrefix(info.Key, s.prefix+prefix), "/"); folder {
			names = append(names, name)
		}
	}
	return names, err
}

// list returns a whole listing or an error. It lists again when a response is cut: the
// client repeats only requests without a response.
func (s *store) list(ctx context.Context, prefix string, options minio.ListObjectsOptions) ([]minio.ObjectInfo, error) {
	for attempt := 0; ; attempt++ {
		infos, err := listOnce(s.client.ListObjectsIter(ctx, s.bucket, options))
		var refused minio.ErrorResponse
		if err == nil || attempt == maxResumptions || ctx.Err() != nil || errors.As(err, &refused) {
			return infos, s.failed(ctx, "list", prefix, err)
		}
	}
}

func listOnce(found iter.Seq[minio.ObjectInfo]) (infos []minio.ObjectInfo, err error) {
	for info := range found {
		if info.Err != nil {
			return nil, info.Err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// Remove implements [journal.Store].
func (s *store) Remove(ctx context.Context, name string) error {
	err := s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{})
	if err = s.failed(ctx, "remove", name, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// maxResumptions bounds the connections in a row that deliver nothing of an object.
const maxResumptions = 5

// resumed reads an object over several connections: when one is lost, the next one
// continues. A restore reads thousands of segments, and bases of gigabytes.
type resumed struct {
	ctx context.Context
	// open opens the object from an offset on.
	open     func(offset int64) (io.ReadCloser, error)
	from     io.ReadCloser
	at, size int64
	failures int // since the last byte
}

// Read implements io.Reader.
func (r *resumed) Read(p []byte) (int, error) {
	for {
		n, err := r.from.Read(p)
		if n > 0 {
			r.at += int64(n)
			r.failures = 0
			return n, nil // the next call has the error
		}
		if err == nil || r.at == r.size && errors.Is(err, io.EOF) {
			return 0, err
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err := r.resume(err); err != nil {
			return 0, err
		}
	}
}

// resume opens the object where the connection was lost.
func (r *resumed) resume(lost error) error {
	for {
		if r.failures++; r.failures > maxResumptions || r.ctx.Err() != nil {
			return lost
		}
		from, err := r.open(r.at)
		if err == nil {
			_ = r.from.Close() // it has failed
			r.from = from
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// Close implements io.Closer.
func (r *resumed) Close() error { return r.from.Close() }
