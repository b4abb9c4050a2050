package kubeconfig

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

func TestRefusedUsers(t *testing.T) {
	good := User{Name: "jane@example.com", Groups: []string{"dev"}, Expires: time.Hour}
	if err := good.Validate(); err != nil {
		t.Fatalf("%+v: %v", good, err)
	}
	for name, change := range map[string]func(*User){
		"no name":     func(u *User) { u.Name = "" },
		"space":       func(u *User) { u.Name = " jane" },
		"newline":     func(u *User) { u.Name = "jane\nroot" },
		"long name":   func(u *User) { u.Name = strings.Repeat("x", 65) },
		"empty group": func(u *User) { u.Groups = []string{""} },
	} {
		bad := good
		if change(&bad); bad.Validate() == nil {
			t.Errorf("%s: %+v was accepted", name, bad)
		}
	}
}

// decided answers each request for a certificate as the server would in the
// end.
func decided(status certificatesv1.CertificateSigningRequestStatus) (*fake.Clientset, *[]string) {
	client := fake.NewClientset()
	var calls []string
	client.PrependReactor("*", "certificatesigningrequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
		calls = append(calls, strings.TrimSuffix(action.GetVerb()+"/"+action.GetSubresource(), "/"))
		csr := &certificatesv1.CertificateSigningRequest{Status: status}
		csr.Name = "csr-1"
		return true, csr, nil
	})
	return client, &calls
}

func TestRefusedRequestIsRemoved(t *testing.T) {
	client, calls := decided(certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure", Message: "no such usage"},
	}})
	_, err := IssueCertificate(context.Background(), client, User{Name: "jane", Expires: time.Hour})
	if err == nil || !strings.Contains(err.Error(), "no such usage") {
		t.Errorf("the error is %v", err)
	}
	if !slices.Contains(*calls, "delete") {
		t.Errorf("the request was not removed: %v", *calls)
	}
}

func TestUnsignedRequestEndsWithTheContext(t *testing.T) {
	client, calls := decided(certificatesv1.CertificateSigningRequestStatus{})
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if _, err := IssueCertificate(ctx, client, User{Name: "jane", Expires: time.Hour}); !errors.Is(err, cause) {
		t.Errorf("the error is %v", err)
	}
	if !slices.Contains(*calls, "delete") {
		t.Errorf("the request was not removed: %v", *calls)
	}
}

func TestWriteInCluster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "serviceaccount")
	for server, want := range map[string]string{
		"https://mini.example.com:6443": "KUBERNETES_SERVICE_HOST=mini.example.com\nKUBERNETES_SERVICE_PORT=6443\n",
		"https://mini.example.com":      "KUBERNETES_SERVICE_HOST=mini.example.com\nKUBERNETES_SERVICE_PORT=443\n",
		"https://[::1]:6443/":           "KUBERNETES_SERVICE_HOST=::1\nKUBERNETES_SERVICE_PORT=6443\n",
	} {
		if err := WriteInCluster(dir, Endpoint{Server: server, CA: []byte("ca")}, "team", &Credentials{Token: "t0ken"}); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"env": want, "token": "t0ken", "ca.crt": "ca", "namespace": "team"} {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != content {
				t.Errorf("%s: file %s has %q (%v), want %q", server, name, got, err, content)
			}
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "token")); err != nil || !datadir.HasMode(info, 0o600) {
		t.Errorf("the token's file: %v %v", info.Mode(), err)
	}
	for _, server := range []string{"", "mini:6443", "http://mini:6443", "https://", "https://mini/path", "https://mini:port"} {
		if err := WriteInCluster(dir, Endpoint{Server: server}, "team", &Credentials{}); err == nil {
			t.Errorf("%q was accepted as the URL of a server", server)
		}
	}
}
