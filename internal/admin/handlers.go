package admin

import (
	"net/http"

	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
)

// Handlers returns the handlers that a server has besides the Kubernetes API, by path.
// Requests are authenticated, and authorized as non-resource URLs.
func Handlers(status func() StatusSource, archive http.Handler, store datastore.Datastore, rotator *KeyRotator, certificates *Certificates) map[string]http.Handler {
	return map[string]http.Handler{
		statusPath:       StatusHandler(status),
		backupPath:       onlyPost(archive),
		defragmentPath:   onlyPost(defragmenter{store}),
		rotatePath:       onlyPost(rotator),
		certificatesPath: onlyPost(certificates),
	}
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
