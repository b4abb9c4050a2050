package cli

import "errors"

// errNoDirectory is the error of an empty path, as an unset shell variable leaves it.
var errNoDirectory = errors.New("the directory is empty: name one, or leave the flag out for the default")

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
	return nil
}
