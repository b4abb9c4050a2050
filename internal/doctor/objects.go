package doctor

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// storedVersions reports custom resources that may be stored in versions that are not
// served. Such a version cannot be removed from the CRD.
func (s *server) storedVersions(ctx context.Context, add func(Finding)) error {
	return s.definitions(ctx, func(crd *apiextensionsv1.CustomResourceDefinition) {
		served, storage := map[string]bool{}, ""
		for _, version := range crd.Spec.Versions {
			served[version.Name] = version.Served
			if version.Storage {
				storage = version.Name
			}
		}
		object := "CustomResourceDefinition " + crd.Name
		if !served[storage] {
			add(Finding{Severity: Risk, Object: object, Problem: fmt.Sprintf("it stores objects as version %s, which is not served", storage),
				Remedy: "set served: true for that version, or storage: true for one that is served, and then migrate what is stored"})
		}
		var unserved []string
		for _, version := range crd.Status.StoredVersions {
			if version != storage && !served[version] {
				unserved = append(unserved, version)
			}
		}
		if len(unserved) == 0 {
			return
		}
		migration := fmt.Sprintf("apiVersion: storagemigration.k8s.io/v1beta1\nkind: StorageVersionMigration\nmetadata: {generateName: %s-}\nspec: {resource: {group: %s, resource: %s}}\n",
			crd.Spec.Names.Plural, crd.Spec.Group, crd.Spec.Names.Plural)
		add(Finding{
			Severity: Risk, Object: object,
			Problem:  fmt.Sprintf("objects may be stored in versions that are not served: %s; they keep the CRD from dropping these versions", strings.Join(unserved, ", ")),
			Remedy:   "create a StorageVersionMigration: the server then rewrites the objects in the version " + storage,
			Commands: []string{"kubectl create -f - <<'EOF'\n" + migration + "EOF"},
		})
	})
}

// maxTokens bounds the secrets that are checked: the server reviews each token in a request
// of its own.
const maxTokens = 200

// tokens reports token secrets that the server does not accept.
func (s *server) tokens(ctx context.Context, add func(Finding)) error {
	list, err := s.client.CoreV1().Secrets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("type", string(corev1.SecretTypeServiceAccountToken)).String(), Limit: maxTokens,
	})
	if err != nil {
		return fmt.Errorf("list token secrets: %w", err)
	}
	for _, secret := range list.Items {
		if err := s.tokenSecret(ctx, add, secret); err != nil {
			return err
		}
	}
	if list.Continue != "" {
		s.skip("tokens", "there are more than %d secrets with tokens: the others were not checked", len(list.Items))
	}
	return nil
}

// tokenSecret has the server review the token of a secret.
func (s *server) tokenSecret(ctx context.Context, add func(Finding), secret corev1.Secret) error {
	token := string(secret.Data[corev1.ServiceAccountTokenKey])
	if token == "" {
		return nil // the controller makes it
	}
	review, err := s.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("review the token of secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	if review.Status.Authenticated {
		return nil
	}
	add(Finding{
		Severity: Failure, Object: "Secret " + secret.Namespace + "/" + secret.Name,
		Problem:  "the server does not accept its token, as after a rotation of the key: " + review.Status.Error,
		Remedy:   "remove the token from the secret: the server makes a new one, which the programs that use it must read",
		Commands: []string{fmt.Sprintf(`kubectl patch secret -n %s %s --type=json -p '[{"op":"remove","path":"/data/token"}]'`, secret.Namespace, secret.Name)},
	})
	return nil
}
