package cli

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

const day = 24 * time.Hour

// durationFlag is a flag with the syntax of [config.Duration].
type durationFlag time.Duration

// String implements [pflag.Value].
func (d *durationFlag) String() string {
	value := time.Duration(*d)
	if value >= day && value%day == 0 {
		return fmt.Sprintf("%dd", value/day)
	}
	return value.String()
}

// Type implements [pflag.Value].
func (d *durationFlag) Type() string { return "duration" }

// Set implements [pflag.Value].
func (d *durationFlag) Set(text string) error {
	value, err := config.ParseDuration(text)
	*d = durationFlag(value)
	return err
}

// addDuration adds a flag for a duration. Its value before is the default.
func addDuration(flags *pflag.FlagSet, target *time.Duration, name, usage string) {
	flags.Var((*durationFlag)(target), name, usage)
}
