package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
)

// backupPath is the path that returns a backup for a POST request.
const backupPath = "/kube-hyper-mini/backup"

// SaveBackup requests a backup without keys from the server of the kubeconfig. It adds the
// keys from source, which is that server's, unless that is nil.
func SaveBackup(ctx context.Context, kubeconfig []byte, w io.Writer, source *backup.Source) error {
	query := url.Values{backup.ParamPlain: {"true"}}
	response, host, err := send(ctx, kubeconfig, http.MethodPost, backupPath+"?"+query.Encode(), 0)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the error does not matter
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return errors.Join(unexpected(host, response, body), err)
	}
	if source == nil {
		_, err = io.Copy(w, response.Body)
	} else {
		err = backup.Complete(ctx, response.Body, w, *source)
	}
	if err != nil {
		return fmt.Errorf("receive the backup from %s: %w", host, err)
	}
	return nil
}
