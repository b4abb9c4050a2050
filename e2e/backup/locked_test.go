package backup

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// lockedBucket is a bucket with object lock: what is in it cannot be changed or removed
// for a day.
type lockedBucket struct {
	*minio.Client
	t    *testing.T
	name string
}

func newLockedBucket(t *testing.T, store *harness.S3) *lockedBucket {
	t.Helper()
	client, err := minio.New(strings.TrimPrefix(store.Endpoint, "http://"), &minio.Options{Creds: credentials.NewStaticV4(harness.S3Key, harness.S3Secret, ""), Region: "us-east-1"})
	b := &lockedBucket{client, t, "locked"}
	if err == nil {
		err = client.MakeBucket(t.Context(), b.name, minio.MakeBucketOptions{Region: "us-east-1", ObjectLocking: true})
	}
	mode, days, unit := minio.Compliance, uint(1), minio.Days
	if err == nil {
		err = client.SetObjectLockConfig(t.Context(), b.name, &mode, &days, &unit)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *lockedBucket) put(name string) error {
	_, err := b.PutObject(b.t.Context(), b.name, name, strings.NewReader("x"), 1, minio.PutObjectOptions{SendContentMd5: true})
	return err
}

// names lists the objects, or all versions of them.
func (b *lockedBucket) names(versions bool) (names []string) {
	b.t.Helper()
	for object := range b.ListObjectsIter(b.t.Context(), b.name, minio.ListObjectsOptions{Recursive: true, WithVersions: versions}) {
		if object.Err != nil {
			b.t.Fatal(object.Err)
		}
		if !object.IsDeleteMarker {
			names = append(names, object.Key)
		}
	}
	return names
}

// TestJournalInALockedBucket: the journal goes on where nothing can be overwritten or
// removed, and the status says that old parts stay. A bucket with versions, as AWS's, hides
// what is removed.
func TestJournalInALockedBucket(t *testing.T) {
	t.Parallel()
	for _, versions := range []bool{false, true} {
		t.Run(fmt.Sprintf("versions=%t", versions), func(t *testing.T) {
			t.Parallel()
			var flags []string
			if versions {
				flags = []string{"--versioning-dir", t.TempDir()}
			}
			store := harness.StartS3(t, flags...)
			bucket := newLockedBucket(t, store)
			destination := "s3://" + bucket.name + "/mini"
			config := harness.ConfigFile(t, fmt.Sprintf("journal: {destination: %q, endpoint: %q, region: us-east-1, credentialsFile: %q, interval: 100ms}\n",
				destination, store.Endpoint, store.CredentialsFile))
			s := harness.Start(t, "--config", config)
			secret(t, s)
			create(t, s, "first")
			journaled(t, s)
			// Bases that are older than the retention; the first ones are not needed. Time
			// between two bases counts for a day at most.
			var old []string
			for age := 20; age > 10; age-- {
				name := fmt.Sprintf("mini/chains/00000001/bases/%020d-%010d-%015d.tar.gz", 0, 1, time.Now().AddDate(0, 0, -10*age).UnixMilli())
				if err := bucket.put(name); err != nil {
					t.Fatal(err)
				}
				old = append(old, name)
			}
			last := create(t, s, "last")
			journaled(t, s)
			s.Kill()
			if err := os.RemoveAll(s.Dir); err != nil {
				t.Fatal(err)
			}
			out, code := harness.CLIWith(t, store.Env, "backup", "restore", "--data-dir", s.Dir, "--from", destination, "--endpoint", store.Endpoint, "--region", "us-east-1")
			if code != harness.ExitOK {
				t.Fatalf("the restore exits with %d: %s", code, out)
			}
			lastRevision(t, out, "as of revision ", last)
			again := harness.StartIn(t, s.Dir, "--config", config) // makes a base, and then removes what is old
			reads(t, again, "last")
			again.WaitLog("the journal has a new base")
			if versions {
				bucket.hides(old[0])
			} else {
				bucket.keeps(again, old[0])
			}
			create(t, again, "after")
			journaled(t, again)
		})
	}
}

// keeps expects that the bucket refuses to remove and to overwrite an object, and that the
// server reports it.
func (b *lockedBucket) keeps(s *harness.Server, name string) {
	b.t.Helper()
	harness.Eventually(b.t, "the status says that old parts stay", func() error {
		if text := s.Status(); !strings.Contains(text, "WARNING: old parts of the journal stay") || !strings.Contains(text, path.Base(name)) || strings.Contains(text, "FAILED") {
			return fmt.Errorf("the status is %s", text)
		}
		return nil
	})
	s.WaitLog("old parts of the journal stay")
	for what, err := range map[string]error{
		"overwritten": b.put(name),
		"removed":     b.RemoveObject(context.WithoutCancel(b.t.Context()), b.name, name, minio.RemoveObjectOptions{}),
	} {
		if minio.ToErrorResponse(err).Code != minio.AccessDenied {
			b.t.Errorf("a locked object was %s: %v", what, err)
		}
	}
}

// hides expects that the object is removed, and that its version stays.
func (b *lockedBucket) hides(name string) {
	b.t.Helper()
	harness.Eventually(b.t, "what is old is removed", func() error {
		if names := strings.Join(b.names(false), "\n"); strings.Contains(names, name) {
			return fmt.Errorf("there is %s", names)
		}
		return nil
	})
	if names := strings.Join(b.names(true), "\n"); !strings.Contains(names, name) {
		b.t.Errorf("of %s there is no version in %s", name, names)
	}
}

// TestJournalWithWrongCredentials: the server runs, and says what is wrong. When the file
// has been corrected, the journal catches up without a restart.
func TestJournalWithWrongCredentials(t *testing.T) {
	t.Parallel()
	store := harness.StartS3(t)
	file := filepath.Join(t.TempDir(), "credentials")
	write := func(secret string) {
		t.Helper()
		text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", harness.S3Key, secret)
		harness.WriteFile(t, file, text)
	}
	write("another")
	s := harness.Start(t, "--config", harness.ConfigFile(t, fmt.Sprintf("journal: {destination: %q, endpoint: %q, region: us-east-1, credentialsFile: %q, interval: 100ms}\n",
		store.URL("mini"), store.Endpoint, file)))
	create(t, s, "before")
	harness.Eventually(t, "the status has the remedy", func() error {
		if text := s.Status(); !strings.Contains(text, "FAILED") || !strings.Contains(text, "check the credentials (journal.credentialsFile") {
			return fmt.Errorf("it is %s", text)
		}
		return nil
	})
	write(harness.S3Secret)
	journaled(t, s)
	out, code := harness.CLIWith(t, []string{"AWS_ACCESS_KEY_ID=" + harness.S3Key, "AWS_SECRET_ACCESS_KEY=another"},
		"backup", "list", "--from", store.URL("mini"), "--endpoint", store.Endpoint, "--region", "us-east-1")
	if code != harness.ExitFailure {
		t.Errorf("backup list exits with %d", code)
	}
	harness.Contains(t, out, "check the credentials")
}
