package etcd

import (
	"errors"
	"fmt"
	"runtime"
	"sort"
	"strings"
	"sync"

	"go.uber.org/zap/zapcore"
)

// lastWords is told what etcd says when it gives up: when it cannot read its
// data, or cannot write any more. etcd would exit or panic, without a word to
// the other parts of the process; here its goroutine ends, and the process is
// taken down in order. Only the first words count.
type lastWords struct {
	once   sync.Once
	spoken chan struct{}
	err    error // valid once spoken is closed
}

func newLastWords() *lastWords { return &lastWords{spoken: make(chan struct{})} }

// OnWrite implements [zapcore.CheckWriteHook] for fatal and panic lines.
func (l *lastWords) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	l.once.Do(func() {
		l.err = errors.New(sentence(entry.Message, fields))
		close(l.spoken)
	})
	runtime.Goexit()
}

// sentence is the message with what it says about the cause.
func sentence(message string, fields []zapcore.Field) string {
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range fields {
		field.AddTo(encoder)
	}
	var parts []string
	for name, value := range encoder.Fields {
		if name == "error" {
			message += ": " + fmt.Sprint(value)
			continue
		}
		parts = append(parts, fmt.Sprintf("%s=%v", name, value))
	}
	if len(parts) == 0 {
		return message
	}
	sort.Strings(parts)
	return message + " (" + strings.Join(parts, ", ") + ")"
}
