package harness

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// S3 is a versitygw with one bucket, on a directory.
type S3 struct {
	// Endpoint is its URL, Bucket the name of the bucket.
	Endpoint, Bucket string
	// Dir has the objects of the bucket as files.
	Dir string
	// CredentialsFile is of the AWS tools, and Env has the same for a command.
	CredentialsFile string
	Env             []string
}

// The credentials of S3.
const (
	S3Key    = "administrator"
	S3Secret = "a secret"
)

// StartS3 runs the server, with additional flags of its backend, until the test ends.
func StartS3(t testing.TB, flags ...string) *S3 {
	t.Helper()
	binary := Build(t, filepath.Join(Root(t), "e2e", "s3server"), "github.com/versity/versitygw/cmd/versitygw", "versitygw")
	root, sidecar := t.TempDir(), t.TempDir()
	s := &S3{Bucket: "archive", Dir: filepath.Join(root, "archive"), CredentialsFile: filepath.Join(t.TempDir(), "credentials")}
	err := os.Mkdir(s.Dir, 0o700)
	if err == nil {
		err = os.WriteFile(s.CredentialsFile, fmt.Appendf(nil, "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", S3Key, S3Secret), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Env = []string{"AWS_ACCESS_KEY_ID=" + S3Key, "AWS_SECRET_ACCESS_KEY=" + S3Secret}
	address := FreeAddress(t)
	s.Endpoint = "http://" + address
	args := append([]string{"--access", S3Key, "--secret", S3Secret, "--port", address, "--quiet", "posix", "--sidecar", sidecar}, flags...)
	StartProcess(t, exec.Command(binary, append(args, root)...))
	Eventually(t, "versitygw listens", func() error {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
	return s
}

// URL of a prefix in the bucket.
func (s *S3) URL(prefix string) string { return "s3://" + s.Bucket + "/" + prefix }
