package admin

import (
	"net/http"

	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// Handlers returns the handlers that a server has besides the Kubernetes API, by path.
// Requests are authenticated, and authorized as non-resource URLs. Those from within the process
// are refused: no part of the server sends them, but an object could have it do so.
func Handlers(status func() StatusSource, backup http.Handler, store datastore.Datastore, rotator *KeyRotator,
	certificates *Certificates) map[string]http.Handler {
	handlers := map[string]http.Handler{
		statusPath:       StatusHandler(status),
		backupPath:       onlyPost(backup),
		defragmentPath:   onlyPost(defragmenter{store}),
		rotatePath:       onlyPost(rotator),
		certificatesPath: onlyPost(certificates),
	}
	for path, handler := range handlers {
		handlers[path] = fromOutside(handler)
	}
	return handlers
}

// fromOutside refuses requests of clients in this process, such as those of webhooks.
func fromOutside(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kube.FromLoopback(r) {
			http.Error(w, "this path is for commands, not for requests from within the server", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// onlyPost refuses requests other than POST.
func onlyPost(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "use POST for this path", http.StatusMethodNotAllowed)
			return
		}
		handler.ServeHTTP(w, r)
	})
}
