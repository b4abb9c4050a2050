package cli

import (
	"errors"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// errNoDirectory is the error of an empty path, as an unset shell variable leaves it.
var errNoDirectory = errors.New("the directory is empty: name one, or leave the flag out for the default")

// errNoFile is the error of an empty path of a file that the command reads.
var errNoFile = errors.New("the file name is empty: name a file, or leave the flag out for the default")

// directoryFlag is the path of a directory in a flag. It is empty only where the flag is
// not given.
type directoryFlag string

// String implements [pflag.Value].
func (d *directoryFlag) String() string { return string(*d) }

// Type implements [pflag.Value].
func (d *directoryFlag) Type() string { return "string" }

// Set implements [pflag.Value].
func (d *directoryFlag) Set(path string) error {
	if path == "" {
		return errNoDirectory
	}
	*d = directoryFlag(path)
	return config.CheckPath(path)
}

// fileFlag is [directoryFlag] for a file that the command reads.
type fileFlag string

// String implements [pflag.Value].
func (f *fileFlag) String() string { return string(*f) }

// Type implements [pflag.Value].
func (f *fileFlag) Type() string { return "string" }

// Set implements [pflag.Value].
func (f *fileFlag) Set(path string) error {
	if path == "" {
		return errNoFile
	}
	*f = fileFlag(path)
	return config.CheckPath(path)
}
