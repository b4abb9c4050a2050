package logs

import "testing"

// TestHarmlessEtcd: a message is harmless only with the listed cause.
func TestHarmlessEtcd(t *testing.T) {
	for _, test := range []struct {
		text, cause string
		want        bool
	}{
		{"failed to apply request", "etcdserver: mvcc: database space exceeded", true},
		{"failed to lock file", "fileutil: file already locked", true},
		{"failed to lock file", "permission denied", false},
		{"retrying of unary invoker failed", "rpc error: code = Canceled desc = context canceled", true},
		{"retrying of unary invoker failed", "rpc error: code = Unavailable desc = connection refused", false},
		{"failed to remove file", "", false},
	} {
		if got := HarmlessEtcd(test.text, test.cause); got != test.want {
			t.Errorf("%q because of %q is harmless: %t, want %t", test.text, test.cause, got, test.want)
		}
	}
}
