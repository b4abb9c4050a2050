package apiserver

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// Names of requesters that are no users.
const (
	controllerRequesters = "" // the servers and their controllers
	masterRequesters     = user.SystemPrivilegedGroup
)

// userKey is of this process: after a restart, tokens that a user has made before count for another
// name than the user's requests.
var userKey = sync.OnceValue(rand.Text)

// userName is the name under which the requests of a user count. IDs of tokens have it, which others
// see: it does not tell who the user is.
func userName(name string) string {
	hash := hmac.New(sha256.New, []byte(userKey()))
	hash.Write([]byte(name)) // a hash returns no error
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// ofControllers is the key of a *bool in the context of a request: whether it comes from this process, or
// refuseRevoked has authenticated the controllers of another one. Users may impersonate their names.
type ofControllers struct{}

func markControllers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ofControllers{}, new(kube.FromLoopback(r)))))
	})
}

// requesterName returns the name under which a request counts: that of the user, controllerRequesters
// or masterRequesters. Requests with a token count for the user who has made it. Requests with
// a token that system:masters have made, or with a token of a Secret, whose maker is not known, count
// for the namespace of the service account: a client that may create one account may create any
// number. The controllers do not share with users, nor with other accounts of kube-system, which may
// be those of operators.
func requesterName(ctx context.Context) string {
	requester, known := request.UserFrom(ctx)
	if !known {
		requester = &user.DefaultInfo{Name: user.Anonymous}
	}
	name, master := requester.GetName(), slices.Contains(requester.GetGroups(), user.SystemPrivilegedGroup)
	marked, _ := ctx.Value(ofControllers{}).(*bool)
	switch {
	case marked != nil && *marked && (name == user.APIServerUser && master || name == user.KubeControllerManager ||
		controllerAccounts().Has(name)):
		return controllerRequesters
	case master:
		return masterRequesters
	}
	namespace, _, err := serviceaccount.SplitUsername(name)
	if err != nil {
		return userName(name)
	}
	switch maker, known := tokenMaker(requester); {
	case !known:
		return serviceaccount.MakeUsername(namespace, "") // no user has this name
	case maker == masterMaker:
		return serviceaccount.MakeNamespaceGroupName(namespace)
	default:
		return maker
	}
}

// ofUnknownMaker reports whether a name is that of service accounts with tokens of Secrets.
func ofUnknownMaker(name string) bool {
	return strings.HasPrefix(name, serviceaccount.ServiceAccountUsernamePrefix)
}

// makerMark separates the ID of a token from the name under which its maker's requests count.
// masterMaker stands for system:masters there.
const makerMark, masterMaker = "/", "-"

// markMaker adds the maker of a token to its ID, which the server signs.
func markMaker(ctx context.Context, claims *jwt.Claims) {
	maker := requesterName(ctx)
	if maker == controllerRequesters || maker == masterRequesters {
		maker = masterMaker
	}
	claims.ID += makerMark + maker
}

func tokenMaker(account user.Info) (name string, known bool) {
	for _, id := range account.GetExtra()[user.CredentialIDKey] {
		_, name, known = strings.Cut(id, makerMark)
	}
	return name, known
}

// controllerAccounts returns the user names of the service accounts that the bootstrap
// policy binds to roles in kube-system or in all namespaces: those of the controllers. They
// are not changed.
var controllerAccounts = sync.OnceValue(func() sets.Set[string] {
	accounts := sets.New[string]()
	add := func(subjects []rbacv1.Subject) {
		for _, subject := range subjects {
			if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == metav1.NamespaceSystem {
				accounts.Insert(serviceaccount.MakeUsername(subject.Namespace, subject.Name))
			}
		}
	}
	for _, binding := range bootstrappolicy.ControllerRoleBindings() {
		add(binding.Subjects)
	}
	for _, binding := range bootstrappolicy.NamespaceRoleBindings()[metav1.NamespaceSystem] {
		add(binding.Subjects)
	}
	return accounts
})
