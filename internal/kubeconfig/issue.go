package kubeconfig

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/ptr"
)

const (
	// maxExpiry is what fits the API's count of seconds.
	maxExpiry = time.Duration(1<<31-1) * time.Second
	// maxCommonName is X.509's bound (RFC 5280, ub-common-name).
	maxCommonName = 64

	signingPoll    = 50 * time.Millisecond
	signingTimeout = 30 * time.Second
)

// User is the subject of a client certificate.
type User struct {
	// Name and Groups are what RBAC sees.
	Name   string
	Groups []string
	// Expires is the life of the certificate.
	Expires time.Duration
}

// Validate returns an error for a name or groups that the server would not accept. It makes
// no request.
func (u User) Validate() error {
	if err := validName("the name of the user", u.Name); err != nil {
		return err
	}
	for _, group := range u.Groups {
		if err := validName("a group", group); err != nil {
			return err
		}
	}
	return nil
}

func validName(what, name string) error {
	switch {
	case name == "" || strings.TrimSpace(name) != name:
		return fmt.Errorf("%s must not be empty or begin or end with space, got %q", what, name)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%s has characters that cannot be printed: %q", what, name)
	case len(name) > maxCommonName:
		return fmt.Errorf("%s has %d bytes; %d are allowed in a certificate: %q", what, len(name), maxCommonName, name)
	}
	return nil
}

// Credentials identify a client until Until. Either Cert and Key are set or
// Token is.
type Credentials struct {
	// Cert and Key are PEM.
	Cert, Key []byte
	Token     string
	Until     time.Time
}

// IssueCertificate makes a key and requests a client certificate for it through the
// API, with the rights of the client: it needs no access to the CA. It removes the
// request afterwards. Upstream's signer may shorten the lifetime; see
// Credentials.Until.
func IssueCertificate(ctx context.Context, client kubernetes.Interface, user User) (_ *Credentials, err error) {
	if err := user.Validate(); err != nil {
		return nil, err
	}
	request, key, err := signingRequest(user)
	if err != nil {
		return nil, fmt.Errorf("make a key for %q: %w", user.Name, err)
	}
	csrs := client.CertificatesV1().CertificateSigningRequests()
	csr, err := csrs.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: Name + "-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:           request,
			SignerName:        certificatesv1.KubeAPIServerClientSignerName,
			ExpirationSeconds: ptr.To(int32(min(user.Expires, maxExpiry) / time.Second)),
			Usages:            []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("request a certificate for %q: %w", user.Name, err)
	}
	name := csr.Name
	defer func() {
		if deleteErr := csrs.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}); deleteErr != nil {
			err = errors.Join(err, fmt.Errorf("remove the certificate signing request %s: %w", name, deleteErr))
		}
	}()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: "KubeconfigCreate", Message: "requested with kube-hyper-mini kubeconfig create",
	})
	if _, err := csrs.UpdateApproval(ctx, name, csr, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("approve the certificate of %q: %w", user.Name, err)
	}
	signed, err := awaitCertificate(ctx, client, name)
	if err != nil {
		return nil, fmt.Errorf("get the certificate of %q: %w", user.Name, err)
	}
	chain, err := cert.ParseCertsPEM(signed)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of %q: %w", user.Name, err)
	}
	return &Credentials{Cert: signed, Key: key, Until: chain[0].NotAfter}, nil
}

// signingRequest returns a PEM certificate request and its PEM key.
func signingRequest(user User) (request, keyPEM []byte, err error) {
	if keyPEM, err = keyutil.MakeEllipticPrivateKeyPEM(); err != nil {
		return nil, nil, err
	}
	key, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, nil, err
	}
	request, err = cert.MakeCSR(key, &pkix.Name{CommonName: user.Name, Organization: user.Groups}, nil, nil)
	return request, keyPEM, err
}

// awaitCertificate waits for the signing controller.
func awaitCertificate(ctx context.Context, client kubernetes.Interface, name string) (signed []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, signingTimeout,
		fmt.Errorf("not signed within %s: the server must run the certificatesigningrequest-signing-controller",
			signingTimeout))
	defer cancel()
	err = wait.PollUntilContextCancel(ctx, signingPoll, true, func(ctx context.Context) (bool, error) {
		csr, err := client.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range csr.Status.Conditions {
			if condition.Type == certificatesv1.CertificateDenied || condition.Type == certificatesv1.CertificateFailed {
				return false, fmt.Errorf("the server refused: %s: %s", condition.Reason, condition.Message)
			}
		}
		signed = csr.Status.Certificate
		return len(signed) > 0, nil
	})
	if ctx.Err() != nil && len(signed) == 0 {
		return nil, context.Cause(ctx)
	}
	return signed, err
}

// IssueToken requests a token of a service account. The server may shorten its
// lifetime; see Credentials.Until.
func IssueToken(ctx context.Context, client kubernetes.Interface, namespace, name string,
	expires time.Duration) (*Credentials, error) {
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(expires / time.Second))},
	}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no service account %s in namespace %s: make it with kubectl create "+
			"serviceaccount -n %s %s", name, namespace, namespace, name)
	}
	if err != nil {
		return nil, fmt.Errorf("request a token for service account %s/%s: %w", namespace, name, err)
	}
	return &Credentials{Token: token.Status.Token, Until: token.Status.ExpirationTimestamp.Time}, nil
}
