package cli

import (
	"fmt"
	"time"

	"github.com/prometheus/common/model"
)

const day = 24 * time.Hour

// lifetime is a flag for a duration that may be written in days (d), weeks (w)
// and years (y) too.
type lifetime time.Duration

// String implements pflag.Value.
func (l *lifetime) String() string {
	d := time.Duration(*l)
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}

// Type implements pflag.Value.
func (l *lifetime) Type() string { return "period" }

// Set implements pflag.Value.
func (l *lifetime) Set(text string) error {
	if d, err := time.ParseDuration(text); err == nil {
		*l = lifetime(d)
		return nil
	}
	d, err := model.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration; write it as 12h or 30d", text)
	}
	*l = lifetime(d)
	return nil
}
