// Users of the program's own: tokens from the environment, and a log of every request.
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// fromEnvironment knows the token in the variable TOKEN, of the user jane.
func fromEnvironment(_ context.Context, token string) (*authenticator.Response, bool, error) {
	if token == "" || token != os.Getenv("TOKEN") {
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: "jane", Groups: []string{"developers"}}}, true, nil
}

func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Println(r.Method, r.URL.Path)
		next.ServeHTTP(w, r)
	})
}

func main() {
	cfg, _, err := config.Load(os.Args[1])
	if err == nil {
		err = controlplane.Run(context.Background(), controlplane.Options{
			Config: cfg, Listen: true, Middleware: logged,
			TokenAuthenticators: []authenticator.Token{authenticator.TokenFunc(fromEnvironment)},
		}, nil)
	}
	log.Fatal(err)
}
