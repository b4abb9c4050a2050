package logs

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
)

// Upstream fact: how klog writes its lines, and ends the process
//
// Mirrors: k8s.io/klog/v2.loggingT.output#OsExit
//   k8s.io/klog/v2.SetOutputBySeverity
//   k8s.io/klog/v2.loggingT.formatHeader
//   k8s.io/klog/v2.OsExit
//   k8s.io/apiserver/pkg/server.runPostStartHook#klog.Fatalf
//   k8s.io/klog/v2.Exit
//   k8s.io/client-go/rest.logBody
// Why: klog.SetLogger passes warnings as plain messages. With logtostderr off, a threshold
//   above FATAL and one_output, klog writes each line once, to the writer of its severity,
//   with a header that ParseKlog removes. klog.Fatal calls klog.OsExit last, holds no lock,
//   and writes the stack of its goroutine to standard error itself, unless klog.Exit was
//   called before; without a hook a component that fails would end the process, and etcd
//   would lose the chance to close its database. From verbosity 9 clients log what they
//   send and receive, Secrets among it.
// Gain: warnings keep their severity in the log; a failure stops the process in order, with
//   its message and without a stack; no Secret is in the log at any verbosity.
// Breaks: lines appear twice, without a level or with klog's header, the process ends at
//   once with exit code 255, or Secrets are in the log at verbosity 9. Tests:
//   TestSeverityIsKept, TestFatalMessageBecomesTheError, TestStopDuringTheStart,
//   TestBodiesAreNotLogged.

// Severities of klog, in the order in which they rise.
var Severities = []string{"INFO", "WARNING", "ERROR", "FATAL"}

// RouteKlog sends klog's lines of each severity to a writer, and its messages
// up to the verbosity. It sets process globals: call it before anything logs.
func RouteKlog(verbosity int, writers map[string]io.Writer) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{
		"logtostderr":     "false",
		"alsologtostderr": "false",
		"stderrthreshold": "4", // above FATAL
		"one_output":      "true",
		"v":               strconv.Itoa(verbosity),
	} {
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("set klog's %s=%s: %w", name, value, err)
		}
	}
	for _, severity := range Severities {
		klog.SetOutputBySeverity(severity, io.Discard)
	}
	omitStacks()
	for _, severity := range Severities {
		klog.SetOutputBySeverity(severity, writers[severity])
	}
	return nil
}

// klogHeader is "W1121 03:21:57.000000   12345 file.go:42] ".
var klogHeader = regexp.MustCompile(`^[IWEF]\d{4} \d{2}:\d{2}:\d{2}\.\d+\s+\d+ ([^ \]]+)\] `)

// ParseKlog splits a line. A line without klog's header has no caller.
func ParseKlog(line []byte) (text, caller string) {
	line = bytes.TrimSpace(line)
	if match := klogHeader.FindSubmatch(line); match != nil {
		return string(line[len(match[0]):]), string(match[1])
	}
	return string(line), ""
}

// OnFatal calls f with the stack of the goroutine after a fatal message of klog,
// instead of ending the process. f starts an orderly stop and returns. The
// goroutine that failed then ends, and its deferred functions run, so that it gives
// back what it has locked with defer. The stop must be bounded in time: a lock
// without a defer stays held. It is a process global.
func OnFatal(f func(stack []byte)) {
	klog.OsExit = func(int) {
		f(debug.Stack())
		runtime.Goexit()
	}
}

// omitStacks calls klog.Exit without ending the process. Fatal messages must have
// a writer before.
func omitStacks() {
	exit := klog.OsExit
	defer func() { klog.OsExit = exit }()
	klog.OsExit = func(int) { runtime.Goexit() } // klog writes the stacks if it returns
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		klog.Exit("not a failure: omit stacks from now on")
	}()
	<-ended
}

// WithoutBody returns a message of klog without the body of a request or a response in it.
func WithoutBody(text string) string {
	for _, prefix := range []string{`"Request Body"`, `"Response Body"`} {
		if strings.HasPrefix(text, prefix) {
			return prefix + " (not logged: it may have secrets)"
		}
	}
	return text
}
