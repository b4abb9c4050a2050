package config

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestJournal refuses what would not protect anything or cannot work.
func TestJournal(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*ServerConfiguration)
		want   string // empty: it is valid
	}{
		"a directory":           {func(c *ServerConfiguration) { c.Journal.Destination = t.TempDir() }, ""},
		"S3":                    {func(c *ServerConfiguration) { c.Journal.Destination, c.Journal.Endpoint = "s3://a/b", "http://c:1" }, ""},
		"no bucket":             {func(c *ServerConfiguration) { c.Journal.Destination = "s3://" }, "is not supported"},
		"no endpoint":           {func(c *ServerConfiguration) { c.Journal.Destination, c.Journal.Endpoint = "s3://a", "c:1" }, "is not the URL"},
		"a region of a disk":    {func(c *ServerConfiguration) { c.Journal.Destination, c.Journal.Region = t.TempDir(), "r" }, "is for S3"},
		"no credentials":        {func(c *ServerConfiguration) { c.Journal.CredentialsFile = "/nowhere/c" }, "no such file"},
		"below the data":        {func(c *ServerConfiguration) { c.Journal.Destination = c.DataDir + "/a" }, "is in the data directory"},
		"the data itself":       {func(c *ServerConfiguration) { c.Journal.Destination = c.DataDir }, "is in the data directory"},
		"one slash":             {func(c *ServerConfiguration) { c.Journal.Destination = "s3:/a/b" }, `did you mean "s3://a/b"?`},
		"no slash":              {func(c *ServerConfiguration) { c.Journal.Destination = "s3:a" }, `did you mean "s3://a"?`},
		"a scheme of a file":    {func(c *ServerConfiguration) { c.Journal.Destination = "file:/a" }, "is not supported"},
		"a home directory":      {func(c *ServerConfiguration) { c.Journal.Destination = "~/a" }, "write the whole path"},
		"an unknown protocol":   {func(c *ServerConfiguration) { c.Journal.Destination = "ftp://a/b" }, "is not supported"},
		"too short an interval": {func(c *ServerConfiguration) { c.Journal.Interval.Duration = time.Millisecond }, "is too short"},
		"no retention":          {func(c *ServerConfiguration) { c.Journal.Retention.Duration = 0 }, "is too short"},
		"no spool":              {func(c *ServerConfiguration) { c.Journal.MaxSpool = resource.MustParse("1") }, "is too small"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Default()
			c.DataDir = t.TempDir()
			test.change(c)
			if err := c.Complete(); err != nil {
				t.Fatal(err)
			}
			err := c.Validate()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// TestFormerName: the section may have its former name, which a note says.
func TestFormerName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"archive": "the field archive is called journal now", "journal": ""} {
		c, source, err := Load(write(t, header+name+": {destination: /mnt/a, retention: 2h}\n"))
		if err != nil || c.Journal.Destination != "/mnt/a" || c.Journal.Retention.Duration != 2*time.Hour {
			t.Fatalf("%s: %+v, %v", name, c, err)
		}
		if note := c.Note(); !strings.HasPrefix(note, want) || (note == "") != (want == "") {
			t.Errorf("%s: the note is %q", name, note)
		}
		if err := source.Locate(NewFieldError("journal.retention", "too short")); !strings.Contains(err.Error(), ":3: ") {
			t.Errorf("%s: the line of a field is lost: %v", name, err)
		}
	}
	if _, _, err := Load(write(t, header+"journal: {}\narchive: {}\n")); err == nil || !strings.Contains(err.Error(), "set twice") {
		t.Errorf("both names: %v", err)
	}
}
