package apiserver

import (
	"context"
	"crypto/subtle"

	"github.com/google/uuid"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// bootstrapUser makes the writes that the server needs to become ready. Admission does
// not apply to them: a policy that protects kube-system, or a webhook whose server is
// down, must not keep the server unready. It is recognized by its Go type, so no
// impersonation can have it.
type bootstrapUser struct{ *user.DefaultInfo }

// bootstrapToken authenticates the bootstrap user. Each process makes its own and uses
// it in the process only.
type bootstrapToken string

func newBootstrapToken() bootstrapToken { return bootstrapToken(uuid.NewString()) }

// authenticate adds the user to the authenticators of c.
func (t bootstrapToken) authenticate(c *genericapiserver.Config) {
	c.Authentication.Authenticator = union.New(bearertoken.New(t), c.Authentication.Authenticator)
}

// AuthenticateToken implements [authenticator.Token].
func (t bootstrapToken) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	if subtle.ConstantTimeCompare([]byte(token), []byte(t)) != 1 {
		return nil, false, nil
	}
	return &authenticator.Response{User: bootstrapUser{&user.DefaultInfo{
		Name: user.APIServerUser, Groups: []string{user.AllAuthenticated, user.SystemPrivilegedGroup},
	}}}, true, nil
}

// bootstrapAdmission is admission for all but the bootstrap user.
type bootstrapAdmission struct{ admission.Interface }

// Admit implements [admission.MutationInterface].
func (b bootstrapAdmission) Admit(ctx context.Context, attributes admission.Attributes,
	o admission.ObjectInterfaces) error {
	mutation, ok := b.Interface.(admission.MutationInterface)
	if !ok || isBootstrap(attributes) {
		return nil
	}
	return mutation.Admit(ctx, attributes, o)
}

// Validate implements [admission.ValidationInterface].
func (b bootstrapAdmission) Validate(ctx context.Context, attributes admission.Attributes,
	o admission.ObjectInterfaces) error {
	validation, ok := b.Interface.(admission.ValidationInterface)
	if !ok || isBootstrap(attributes) {
		return nil
	}
	return validation.Validate(ctx, attributes, o)
}

func isBootstrap(attributes admission.Attributes) bool {
	_, is := attributes.GetUserInfo().(bootstrapUser)
	return is
}
