// go-redis: Client, its Pipeline, and ClusterClient.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

type library struct{ redis.UniversalClient }

func (l library) Incr(key string) (int64, error) { return l.UniversalClient.Incr(ctx, key).Result() }

func (l library) IncrBy(key string, n int64) (int64, error) {
	return l.UniversalClient.IncrBy(ctx, key, n).Result()
}

func (l library) Pipeline(keys []string) (ids []int64, err error) {
	commands, err := l.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range keys {
			pipe.Incr(ctx, key)
		}
		return nil
	})
	for _, command := range commands {
		ids = append(ids, command.(*redis.IntCmd).Val())
	}
	return ids, err
}

func (l library) Get(key string) (string, error) { return l.UniversalClient.Get(ctx, key).Result() }

func (l library) MGet(keys ...string) ([]any, error) {
	return l.UniversalClient.MGet(ctx, keys...).Result()
}

func (l library) Exists(keys ...string) (int64, error) {
	return l.UniversalClient.Exists(ctx, keys...).Result()
}

func (l library) Set(key, value string) error {
	return l.UniversalClient.Set(ctx, key, value, 0).Err()
}

func (l library) Raw(words ...any) (any, error) { return l.Do(ctx, words...).Result() }

func main() {
	mode := os.Args[1]
	isCluster := strings.HasPrefix(mode, "cluster")
	var addresses []string
	for _, port := range strings.Fields(os.Getenv("ROWSTAMP_PORTS")) {
		addresses = append(addresses, "127.0.0.1:"+port)
	}
	var config *tls.Config
	protocol := 0
	if strings.HasSuffix(mode, "tls") {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(must(os.ReadFile(os.Getenv("ROWSTAMP_CA"))))
		config = &tls.Config{RootCAs: roots}
	} else {
		protocol = int(mode[len(mode)-1] - '0')
	}
	open := func(u user) Client {
		if isCluster {
			return library{redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: addresses, Username: u.name, Password: u.password, Protocol: protocol, TLSConfig: config,
				// After a proxy has gone the client uses it until it asks for the nodes again, by default after a minute.
				ClusterStateReloadInterval: time.Second,
			})}
		}
		return library{redis.NewClient(&redis.Options{
			Addr: addresses[0], Username: u.name, Password: u.password, Protocol: protocol, TLSConfig: config,
		})}
	}
	check := &Check{ids: map[string]bool{}}
	run(check, open, isCluster)
	if check.wrong > 0 {
		os.Exit(1)
	}
	fmt.Printf("ok go-redis %s: %d checks\n", redis.Version(), check.checks)
}
