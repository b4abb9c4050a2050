package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"k8s.io/klog/v2"
)

const klogLine = "W1121 03:21:57.000000   12345 file.go:42] \"Something\" key=\"value\"\n"

// TestTextLines: messages of libraries have text of clients, which must not control the terminal.
func TestTextLines(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		log     func(*slog.Logger)
		want    string // the end of all that is logged
	}{
		"values": {Options{Format: "text"}, func(l *slog.Logger) { l.Info("ready", "path", "/var/lib/x", "text", "two words", "empty", "") },
			" INFO  ready  path=/var/lib/x text=\"two words\" empty=\"\"\n"},
		"verbosity 0": {Options{}, func(l *slog.Logger) { l.Debug("x") }, ""},
		"control characters": {Options{Format: "text"}, func(l *slog.Logger) { l.Info("a\x1b[2Jb\n\tc\u009bd", "key", "\x1b[2J") },
			" INFO  a\\x1b[2Jb\n\tc\\u009bd  key=\"\\x1b[2J\"\n"},
		"no colour":         {Options{}, func(l *slog.Logger) { l.Error("x") }, " ERROR x\n"},
		"colour":            {Options{Color: true}, func(l *slog.Logger) { l.Error("x") }, "\x1b[31mERROR\x1b[0m x\n"},
		"systemd's journal": {Options{Untimed: true}, func(l *slog.Logger) { l.Info("ready") }, "INFO  ready\n"},
		"groups": {Options{Untimed: true}, func(l *slog.Logger) { l.With("a", 1).WithGroup("g").With("b", 2).Info("line", "c", 3) },
			"INFO  line  a=1 g.b=2 g.c=3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			test.log(slog.New(newHandler(&out, test.options)))
			if line := out.String(); !strings.HasSuffix(line, test.want) || test.want == "" && line != "" || test.options.Untimed && line != test.want ||
				strings.Contains(line, "\x1b") && !test.options.Color {
				t.Errorf("got %q", line)
			}
		})
	}
}

func TestJSONLinesHaveUpstreamsKeys(t *testing.T) {
	var out bytes.Buffer
	handler := newHandler(&out, Options{Format: "json"})
	if _, err := (severityWriter{handler, slog.LevelWarn}).Write([]byte(klogLine)); err != nil {
		t.Fatal(err)
	}
	var record map[string]any
	if err := json.Unmarshal(out.Bytes(), &record); err != nil {
		t.Fatal(err)
	}
	if record["ts"] == nil || record["level"] != "WARN" || record["msg"] != `"Something" key="value"` || record["caller"] != "file.go:42" {
		t.Errorf("got %v", record)
	}
}

func TestSeverityIsKept(t *testing.T) {
	const harmless = "W1121 03:21:57.000000 1 x.go:1] Skipping API a/v1 because it has no resources.\n"
	for name, test := range map[string]struct {
		line      string
		verbosity int
		want      string
	}{
		"a warning":                  {klogLine, 0, " WARN  \"Something\" key=\"value\"  caller=file.go:42\n"},
		"a plain line":               {"no header\n", 0, " WARN  no header\n"},
		"a harmless warning":         {harmless, 0, ""},
		"a harmless warning at -v 1": {harmless, 1, " DEBUG Skipping API a/v1 because it has no resources.  caller=x.go:1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			w := severityWriter{newHandler(&out, Options{Verbosity: test.verbosity}), slog.LevelWarn}
			if n, err := w.Write([]byte(test.line)); n != len(test.line) || err != nil {
				t.Errorf("Write: %d, %v", n, err)
			}
			if test.want == "" && out.Len() > 0 || !strings.HasSuffix(out.String(), test.want) {
				t.Errorf("got %q", out.String())
			}
		})
	}
}

// TestFatalMessageBecomesTheError: the process stops in order with the message as its
// error, and nothing bypasses the log.
func TestFatalMessageBecomesTheError(t *testing.T) {
	bypass, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer bypass.Close()
	defer func(old *os.File) { os.Stderr = old }(os.Stderr)
	os.Stderr = bypass
	if _, err := Setup(&bytes.Buffer{}, Options{}); err != nil {
		t.Fatal(err)
	}
	failures := make(chan error, 1)
	OnFatal(func(err error) { failures <- err })
	var mu sync.Mutex
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		mu.Lock()
		defer mu.Unlock()
		klog.Fatalf("PostStartHook %q failed", "x")
	}()
	if err := <-failures; err.Error() != `a Kubernetes component failed: PostStartHook "x" failed` {
		t.Error(err)
	}
	<-ended
	mu.Lock() // what was locked with defer is free for the stop
	if stacks, err := os.ReadFile(bypass.Name()); err != nil || len(stacks) > 0 {
		t.Errorf("on standard error: %q, %v", stacks, err)
	}
}

// TestHarmlessMessagesOfEtcdAreDemoted, and never dropped.
func TestHarmlessMessagesOfEtcdAreDemoted(t *testing.T) {
	for name, test := range map[string]struct {
		message, err string
		level        string
	}{
		"a client that went away":  {"retrying of unary invoker failed", "rpc error: code = Canceled desc = context canceled", "DEBUG"},
		"a connection that failed": {"retrying of unary invoker failed", "rpc error: code = Unavailable desc = connection refused", "WARN "},
		"a setting":                {"simple token is not cryptographically signed", "", "DEBUG"},
		"a slow disk":              {"slow fdatasync", "", "WARN "},
		"a full database":          {"failed to apply request", "etcdserver: mvcc: database space exceeded", "DEBUG"},
		"a lock of another one":    {"failed to lock file", "fileutil: file already locked", "DEBUG"},
		"a lock that is refused":   {"failed to lock file", "permission denied", "WARN "},
		"a file that stays":        {"failed to remove file", "", "WARN "},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			Zap(slog.New(newHandler(&out, Options{Untimed: true, Verbosity: 1})), 1).Warn(test.message, zap.Error(errors.New(test.err)))
			if !strings.HasPrefix(out.String(), test.level+" etcd: "+test.message) {
				t.Errorf("got %q", out.String())
			}
			out.Reset()
			Zap(slog.New(newHandler(&out, Options{Untimed: true})), 0).Warn(test.message, zap.Error(errors.New(test.err)))
			if shown := out.Len() > 0; shown != (test.level == "WARN ") {
				t.Errorf("at verbosity 0: %q", out.String())
			}
		})
	}
}

func TestZapGoesThroughTheSameHandler(t *testing.T) {
	var out bytes.Buffer
	logger := Zap(slog.New(newHandler(&out, Options{})), 0)
	logger.Info("chatter")
	logger.With(zap.String("b", "2")).Warn("slow", zap.Int("a", 1))
	if got := out.String(); !strings.HasSuffix(got, " WARN  etcd: slow  a=1 b=2\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
	out.Reset()
	Zap(slog.New(newHandler(&out, Options{})), 2).Info("chatter")
	if !strings.Contains(out.String(), "etcd: chatter") {
		t.Errorf("at verbosity 2 it says %q", out.String())
	}
}

// loggingValue logs another line when it is formatted.
type loggingValue struct{ logger *slog.Logger }

func (v loggingValue) LogValue() slog.Value {
	v.logger.Info("another line", "fifth", "x", "sixth", "x", "seventh", "x")
	return slog.StringValue("value")
}

// TestLinesDoNotShareAttributes: loggers are used by several goroutines, and lines that are
// formatted at the same time must not write into each other's attributes.
func TestLinesDoNotShareAttributes(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(newHandler(&out, Options{})).With("first", 1, "second", 2, "third", 3, "fourth", 4).With("fifth", 5)
	logger.Info("line", "sixth", loggingValue{logger}, "seventh", 7, "eighth", 8)
	if want := "line  first=1 second=2 third=3 fourth=4 fifth=5 sixth=value seventh=7 eighth=8\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %q, want %q at the end", out.String(), want)
	}
}

// TestBodiesAreNotLogged: the bodies of requests of the server's own clients may have secrets.
func TestBodiesAreNotLogged(t *testing.T) {
	var out bytes.Buffer
	w := severityWriter{newHandler(&out, Options{Untimed: true}), slog.LevelInfo}
	for _, line := range []string{
		"I1121 03:21:57.000000   12345 request.go:42] \"Response Body\" body=<\n\t{\"data\":\"c2VjcmV0\"}\n >\n",
		"I1121 03:21:57.000000   12345 request.go:42] \"Request Body\" body=\"c2VjcmV0\"\n",
	} {
		if _, err := w.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); strings.Contains(got, "c2VjcmV0") || !strings.Contains(got, "Body") {
		t.Errorf("got %q", got)
	}
}
