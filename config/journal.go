package config

import (
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Journal configures the journal: each change, in a directory or a bucket. It is encrypted to the recipients of
// [Backup].
type Journal struct {
	// Destination is a directory or s3://BUCKET[/PREFIX]; empty means no journal.
	Destination string `json:"destination"`
	// Endpoint is the URL of the S3 server; empty means that of AWS. Region of the
	// bucket may be empty.
	Endpoint string `json:"endpoint"`
	Region   string `json:"region"`
	// CredentialsFile has credentials in the format of the AWS tools. Empty means
	// those of the environment, the user's file, or the instance.
	CredentialsFile string `json:"credentialsFile"`
	// Interval is how long a change waits before it is recorded.
	Interval Duration `json:"interval"`
	// Retention is how far back a restore reaches.
	Retention Duration `json:"retention"`
	// MaxSpool bounds the changes on the local disk that wait for the destination.
	MaxSpool resource.Quantity `json:"maxSpool"`
	// TakeOver is the ID of a server that does not exist any more; this server may
	// continue its destination.
	TakeOver string `json:"takeOver"`
	// StopIfSuperseded stops the server when another one continues its journal: no restore
	// would have what it writes.
	StopIfSuperseded bool `json:"stopIfSuperseded"`
	// RestoreIfEmpty makes a server with an empty data directory restore the newest state.
	RestoreIfEmpty bool `json:"restoreIfEmpty"`
}

// The least values of [Journal].
const (
	minJournalInterval  = 100 * time.Millisecond
	minJournalRetention = time.Minute
	minJournalSpool     = 16 << 20
)

// isURL reports whether the destination is a URL, or a mistyped one, not a directory. One
// letter before the colon is a drive of Windows.
func (a *Journal) isURL() bool {
	scheme, _, found := strings.Cut(a.Destination, ":")
	return found && len(scheme) > 1 && !strings.ContainsAny(scheme, `/\.`)
}

func (a *Journal) validate(dataDir string, fail func(path, format string, args ...any)) {
	if a.Destination != "" {
		a.validateDestination(dataDir, fail)
	}
	if a.Interval.Duration < minJournalInterval {
		fail("journal.interval", "%s is too short; at least %s, 1s is the default", a.Interval.Duration, minJournalInterval)
	}
	if a.Retention.Duration < minJournalRetention {
		fail("journal.retention", "%s is too short; at least %s, 168h is the default",
			a.Retention.Duration, minJournalRetention)
	}
	if a.MaxSpool.Value() < minJournalSpool {
		fail("journal.maxSpool", "%s is too small; at least 16Mi, 1Gi is the default", a.MaxSpool.String())
	}
}

func (a *Journal) validateDestination(dataDir string, fail func(path, format string, args ...any)) {
	if a.isURL() {
		if rest, found := strings.CutPrefix(a.Destination, "s3:"); found && !strings.HasPrefix(rest, "//") {
			fail("journal.destination", "%q is not a URL; did you mean \"s3://%s\"?", a.Destination, strings.TrimLeft(rest, "/"))
		} else if u, err := url.Parse(a.Destination); err != nil || u.Scheme != "s3" || u.Host == "" ||
			u.RawQuery != "" || u.User != nil {
			fail("journal.destination", "%q is not supported; write the path of a directory, s3://BUCKET or s3://BUCKET/PREFIX",
				a.Destination)
		}
		if u, err := url.Parse(a.Endpoint); a.Endpoint != "" &&
			(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			fail("journal.endpoint", "%q is not the URL of an S3 server; write https://HOST[:PORT]", a.Endpoint)
		}
		return
	}
	if err := CheckPath(a.Destination); err != nil {
		fail("journal.destination", "%v", err)
	}
	for _, field := range []struct{ name, value string }{{"endpoint", a.Endpoint}, {"region", a.Region},
		{"credentialsFile", a.CredentialsFile}} {
		if field.value != "" {
			fail("journal."+field.name, "is for S3, and journal.destination is a directory; remove one of them")
		}
	}
	if relative, err := filepath.Rel(dataDir, a.Destination); err == nil && filepath.IsLocal(relative) {
		fail("journal.destination", "%q is in the data directory and would be lost with it; "+
			"choose a directory on another disk", a.Destination)
	}
}
