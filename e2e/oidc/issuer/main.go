// The issuer command is an OpenID Connect provider on loopback with one user. It is put
// together from the provider of github.com/zitadel/oidc and the storage of its example,
// which it adds the user's groups to.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

func main() {
	address := flag.String("listen", "127.0.0.1:9998", "address of the issuer")
	crt := flag.String("cert", "tls.crt", "serving certificate")
	key := flag.String("key", "tls.key", "its key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *crt, *key); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends. Its clients are kube-hyper-mini and other.
func run(ctx context.Context, address, crt, key string) error {
	storage.RegisterClients(
		storage.NativeClient("kube-hyper-mini", "http://localhost:8000"),
		storage.NativeClient("other", "http://localhost:8000"),
	)
	issuer := "https://" + address
	server := &http.Server{
		Addr: address, ReadHeaderTimeout: time.Minute,
		Handler: exampleop.SetupServer(issuer, users{storage.NewStorage(jane{})}, nil, false),
	}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // its clients are cut off
	if err := server.ListenAndServeTLS(crt, key); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", issuer, err)
	}
	return nil
}

// jane is the only user.
type jane struct{}

var user = &storage.User{ID: "jane", Username: "jane", Password: "password", FirstName: "Jane", LastName: "Doe", Email: "jane@example.org", EmailVerified: true}

// GetUserByID implements storage.UserStore.
func (jane) GetUserByID(id string) *storage.User {
	if id == user.ID {
		return user
	}
	return nil
}

// GetUserByUsername implements storage.UserStore.
func (jane) GetUserByUsername(name string) *storage.User { return jane{}.GetUserByID(name) }

// ExampleClientID implements storage.UserStore.
func (jane) ExampleClientID() string { return "none" }

// users adds groups to the tokens.
type users struct{ *storage.Storage }

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest.
func (u users) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string) error {
	if slices.Contains(scopes, "groups") {
		info.AppendClaims("groups", []string{"devs"})
	}
	return u.Storage.SetUserinfoFromRequest(ctx, info, token, scopes)
}

// GetClientByClientID implements op.Storage.
func (u users) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	found, err := u.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{found}, nil
}

// client gets the claims of its scopes in ID tokens.
type client struct{ op.Client }

// IDTokenUserinfoClaimsAssertion implements op.Client.
func (client) IDTokenUserinfoClaimsAssertion() bool { return true }

// IsScopeAllowed implements op.Client.
func (client) IsScopeAllowed(scope string) bool { return scope == "groups" }

// RestrictAdditionalIdTokenScopes implements op.Client.
func (client) RestrictAdditionalIdTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}
