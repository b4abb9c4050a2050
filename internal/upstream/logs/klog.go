package logs

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"k8s.io/klog/v2"
)

// Upstream fact: klog's lines go to one writer for each severity
//
// Mirrors: k8s.io/klog/v2.loggingT.output k8s.io/klog/v2.SetOutputBySeverity
//   k8s.io/klog/v2.loggingT.formatHeader
// Why: klog.SetLogger passes warnings as plain messages. With logtostderr
//   off, a threshold above FATAL and one_output, klog writes each line once, to
//   the writer of its severity, with a header that ParseKlog removes.
// Gain: warnings of Kubernetes components keep their severity in the log.
// Breaks: lines appear twice, on standard error without a level, or with klog's header
//   in the message. Tests: TestSeverityIsKept.

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
