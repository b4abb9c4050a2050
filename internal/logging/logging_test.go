package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
)

const klogLine = "W1121 03:21:57.000000   12345 file.go:42] \"Something\" key=\"value\"\n"

func TestTextLines(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(newHandler(&out, Options{Format: "text"}))
	logger.Info("ready", "path", "/var/lib/x", "text", "two words", "empty", "")
	logger.Debug("not at verbosity 0")
	line := out.String()
	if !strings.HasSuffix(line, " INFO  ready  path=/var/lib/x text=\"two words\" empty=\"\"\n") || strings.Count(line, "\n") != 1 {
		t.Errorf("got %q", line)
	}
}

func TestColorOnlyWhenAsked(t *testing.T) {
	var plain, colored bytes.Buffer
	slog.New(newHandler(&plain, Options{})).Error("x")
	slog.New(newHandler(&colored, Options{Color: true})).Error("x")
	if strings.Contains(plain.String(), "\x1b") || !strings.Contains(colored.String(), "\x1b[31mERROR\x1b[0m") {
		t.Errorf("got %q and %q", plain.String(), colored.String())
	}
}

func TestAJournalAddsTheTime(t *testing.T) {
	var out bytes.Buffer
	slog.New(newHandler(&out, Options{Untimed: true})).Info("ready")
	if out.String() != "INFO  ready\n" {
		t.Errorf("got %q", out.String())
	}
}

func TestJSONLinesHaveUpstreamsKeys(t *testing.T) {
	var out bytes.Buffer
	handler := newHandler(&out, Options{Format: "json"})
	if _, err := (severityWriter{handler, slog.LevelWarn, true}).Write([]byte(klogLine)); err != nil {
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
	for name, test := range map[string]struct {
		line string
		all  bool
		want string
	}{
		"a warning":              {klogLine, false, " WARN  \"Something\" key=\"value\"  caller=file.go:42\n"},
		"a plain line":           {"no header\n", false, " WARN  no header\n"},
		"an unremarkable one":    {"W1121 03:21:57.000000 1 x.go:1] Skipping API a/v1 because it has no resources.\n", false, ""},
		"unremarkable but asked": {"W1121 03:21:57.000000 1 x.go:1] Skipping API a/v1 because it has no resources.\n", true, "Skipping API"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			w := severityWriter{newHandler(&out, Options{}), slog.LevelWarn, test.all}
			if n, err := w.Write([]byte(test.line)); n != len(test.line) || err != nil {
				t.Errorf("Write: %d, %v", n, err)
			}
			if test.want == "" && out.Len() > 0 || !strings.Contains(out.String(), test.want) {
				t.Errorf("got %q", out.String())
			}
		})
	}
}

// TestCancelledRequestsAreNoWarning: those that fail are.
func TestCancelledRequestsAreNoWarning(t *testing.T) {
	for err, want := range map[string]bool{
		"rpc error: code = Canceled desc = context canceled":      false,
		"rpc error: code = Unavailable desc = connection refused": true,
	} {
		var out bytes.Buffer
		Zap(slog.New(newHandler(&out, Options{})), 0).Warn("retrying of unary invoker failed", zap.Error(errors.New(err)))
		if said := out.Len() > 0; said != want {
			t.Errorf("%s: it says %q", err, out.String())
		}
	}
}

func TestZapGoesThroughTheSameHandler(t *testing.T) {
	var out bytes.Buffer
	logger := Zap(slog.New(newHandler(&out, Options{})), 0)
	logger.Info("chatter")
	logger.Warn("[UNSAFE] --unsafe-no-fsync is on")
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
