package translations

import "testing"

func TestRunsKubectl(t *testing.T) {
	for _, test := range []struct {
		args []string
		want bool
	}{
		{[]string{"kube-hyper-mini", "kubectl", "get", "pods"}, true},
		{[]string{"/assets/kubectl", "get", "pods"}, true},
		{[]string{`C:\assets\kubectl.exe`}, true},
		{[]string{"kube-hyper-mini", "run", "--", "kubectl", "get", "pods"}, false},
		{[]string{"kube-hyper-mini"}, false},
		{nil, false},
	} {
		if got := runsKubectl(test.args); got != test.want {
			t.Errorf("%q: %t, want %t", test.args, got, test.want)
		}
	}
}
