package admin

import (
	"context"
	"fmt"
	"io"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
)

// backupPath is the path that returns a backup for a POST request.
const backupPath = "/kube-hyper-mini/backup"

// SaveBackup requests a backup without keys from the server of the kubeconfig. It adds the
// keys from source, which is that server's, unless that is nil.
func SaveBackup(ctx context.Context, kubeconfig []byte, w io.Writer, source *backup.Source) error {
	return post(ctx, kubeconfig, backupPath+"?"+backup.ParamPlain+"=true", func(host string, body io.Reader) (err error) {
		if source == nil {
			_, err = io.Copy(w, body)
		} else {
			err = backup.Complete(ctx, body, w, *source)
		}
		if err != nil {
			return fmt.Errorf("receive the backup from %s: %w", host, err)
		}
		return nil
	})
}
