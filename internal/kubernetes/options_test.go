package kubernetes

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestOptionsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string // in the error; empty for none
	}{
		"defaults":      {nil, ""},
		"dual stack":    {[]string{"--service-cluster-ip-range=10.1.0.0/16,fd00::/108"}, ""},
		"no CIDR":       {[]string{"--service-cluster-ip-range=10.1.0.0"}, `"10.1.0.0" is not a CIDR`},
		"empty":         {[]string{"--service-cluster-ip-range="}, `"" is not a CIDR`},
		"too small":     {[]string{"--service-cluster-ip-range=10.1.0.0/30"}, "at least 8"},
		"three":         {[]string{"--service-cluster-ip-range=10.1.0.0/24,10.2.0.0/24,10.3.0.0/24"}, "has 3 ranges"},
		"same family":   {[]string{"--service-cluster-ip-range=10.1.0.0/24,10.2.0.0/24"}, "different IP families"},
		"port range":    {[]string{"--service-node-port-range=http"}, "http"},
		"not a boolean": {[]string{"--allow-privileged=maybe"}, "maybe"},
	} {
		t.Run(name, func(t *testing.T) {
			o, flags := NewOptions(), pflag.NewFlagSet("", pflag.ContinueOnError)
			o.AddFlags(flags)
			err := flags.Parse(c.args)
			if errs := o.Validate(); err == nil && len(errs) > 0 {
				err = errs[0]
			}
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
