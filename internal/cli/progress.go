package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/progress"
)

// terminal is a standard error that shows progress.
type terminal struct {
	*progress.Display
	file *os.File
}

// showProgress makes [track] show tasks on the command's standard error, if that is a
// terminal.
func showProgress(cmd *cobra.Command) {
	file, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !isTerminal(file) {
		return
	}
	display := progress.New(file, func() int {
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 80
		}
		return width
	})
	cmd.SetErr(terminal{display, file})
	cmd.SetContext(progress.With(cmd.Context(), display))
}

// track is [progress.Track] for a command.
func track(cmd *cobra.Command, task string, done func() string) (stop func()) {
	return progress.Track(cmd.Context(), task, done)
}

// databaseSize is the size of the embedded database, as text; "" if it is not known.
func databaseSize(cfg *config.ServerConfiguration) string {
	info, err := os.Stat(etcd.DatabaseFile(filepath.Join(cfg.DataDir, "etcd")))
	if err != nil || len(cfg.Etcd.External.Endpoints) > 0 {
		return ""
	}
	return bytes(info.Size())
}

// bytesWritten returns a text with the bytes of a counter and the size of the database.
func bytesWritten(counter *progress.Counter, cfg *config.ServerConfiguration) func() string {
	return func() string {
		text := bytes(counter.Bytes()) + " written"
		if size := databaseSize(cfg); size != "" {
			text += ", of a database of " + size
		}
		return text
	}
}

// directorySize returns a text with the size of a directory.
func directorySize(dir string) func() string {
	return func() string {
		size, err := etcd.StoppedSize(dir)
		if err != nil {
			return "" // it is not there yet, or not any more
		}
		return fmt.Sprintf("%s written", bytes(size))
	}
}

// fileOf returns the file that w writes to, or nil.
func fileOf(w io.Writer) *os.File {
	switch w := w.(type) {
	case *os.File:
		return w
	case terminal:
		return w.file
	}
	return nil
}
