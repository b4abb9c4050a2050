package logs

import (
	"runtime"

	"k8s.io/klog/v2"
)

// Upstream fact: after klog.Exit, klog.Fatal writes no stacks
//
// Mirrors: k8s.io/klog/v2.loggingT.output k8s.io/klog/v2.Exit
// Why: klog.Fatal writes the stack of its goroutine to standard error itself, past
//   every writer, also where a post-start hook fails because the server is being
//   stopped. klog.Exit switches that off for the rest of the process.
// Gain: a stop during the start prints no stack; a failure prints its message.
// Breaks: a stack trace on standard error, or a file of klog's in the temporary
//   directory. Tests: TestStopDuringTheStart.

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
