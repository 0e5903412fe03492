package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	_ "github.com/ncruces/go-sqlite3/driver"
	"github.com/redis/go-redis/v9"

	"rota/locking/fence"
)

// redisForExamples stands for a Redis of one's own.
func redisForExamples() (*fence.Redis, func()) {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: m.Addr()})
	guarded, err := fence.NewRedis(client, fence.RedisOptions{Prefix: "{app}:fence:"})
	if err != nil {
		panic(err)
	}
	return guarded, func() {
		_ = client.Close()
		m.Close()
	}
}

// databaseForExamples stands for a database of one's own.
func databaseForExamples() (*sql.DB, *fence.SQL) {
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(1)
	guard, err := fence.NewSQL(fence.SQLOptions{Dialect: fence.SQLite})
	if err != nil {
		panic(err)
	}
	for _, statement := range []string{
		guard.Schema(),
		"CREATE TABLE report (id integer PRIMARY KEY, body text, fence integer NOT NULL DEFAULT 0)",
		"INSERT INTO report (id, body) VALUES (7, 'empty')",
	} {
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			panic(err)
		}
	}
	return db, guard
}

func ExampleRedis_Write() {
	guarded, stop := redisForExamples()
	defer stop()
	ctx := context.Background()

	fmt.Println(guarded.Write(ctx, "report", 34, []byte("by the second holder")))
	err := guarded.Write(ctx, "report", 33, []byte("by the first, late"))
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		fmt.Println("refused:", stale.Token, "is below", stale.Stored)
	}
	// Output:
	// <nil>
	// refused: 33 is below 34
}

// What is counted up is read after the token was raised: nobody can have written in between but holders of
// higher tokens, and then the write is refused.
func ExampleRedis_Raise() {
	guarded, stop := redisForExamples()
	defer stop()
	ctx := context.Background()
	count := func(token int64) error {
		value, err := guarded.Raise(ctx, "counter", token)
		if err != nil {
			return err
		}
		return guarded.Write(ctx, "counter", token, append(value.Data, 'I'))
	}

	fmt.Println(count(33), count(34), count(33))
	// Output:
	// <nil> <nil> fence: stale token 33 for "counter": the store has seen 34
}

func ExampleRedis_Read() {
	guarded, stop := redisForExamples()
	defer stop()
	ctx := context.Background()

	value, err := guarded.Read(ctx, "report")
	fmt.Println(value.Token, value.Data == nil, err)
	if err := guarded.Write(ctx, "report", 34, []byte("done")); err != nil {
		panic(err)
	}
	value, err = guarded.Read(ctx, "report")
	fmt.Println(value.Token, string(value.Data), err)
	// Output:
	// 0 true <nil>
	// 34 done <nil>
}

func ExampleSQL_Guard() {
	db, guard := databaseForExamples()
	defer func() { _ = db.Close() }()
	ctx := context.Background()
	// publish is a job's own code: it got the token with its run.
	publish := func(token int64, body string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := guard.Guard(ctx, tx, "report", token); err != nil {
			return err // errors.Is(err, fence.ErrStale): another run has gone on
		}
		if _, err := tx.ExecContext(ctx, "UPDATE report SET body = ? WHERE id = 7", body); err != nil {
			return err
		}
		return tx.Commit()
	}

	fmt.Println(publish(34, "by the second holder"))
	fmt.Println(publish(33, "by the first, late"))
	// Output:
	// <nil>
	// fence: stale token 33 for "report": the store has seen 34
}

func ExampleSQL_Do() {
	db, guard := databaseForExamples()
	defer func() { _ = db.Close() }()
	ctx := context.Background()
	write := func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE report SET body = 'done' WHERE id = 7")
		return err
	}

	fmt.Println(guard.Do(ctx, db, "report", 34, write))
	fmt.Println(errors.Is(guard.Do(ctx, db, "report", 33, write), fence.ErrStale))
	// Output:
	// <nil>
	// true
}

func ExampleSQL_Seen() {
	db, guard := databaseForExamples()
	defer func() { _ = db.Close() }()
	ctx := context.Background()
	if err := guard.Do(ctx, db, "report", 34, func(*sql.Tx) error { return nil }); err != nil {
		panic(err)
	}

	fmt.Println(guard.Seen(ctx, db, "report"))
	fmt.Println(guard.Seen(ctx, db, "another"))
	// Output:
	// 34 <nil>
	// 0 <nil>
}

func ExampleSQL_Schema() {
	guard, err := fence.NewSQL(fence.SQLOptions{Dialect: fence.PostgreSQL, Table: "app.tokens"})
	if err != nil {
		panic(err)
	}
	fmt.Println(guard.Schema())
	// Output:
	// CREATE TABLE IF NOT EXISTS app.tokens (
	//   key   text   PRIMARY KEY,
	//   token bigint NOT NULL CHECK (token BETWEEN 1 AND 9007199254740991)
	// )
}

func ExampleDialect_Applied() {
	db, _ := databaseForExamples()
	defer func() { _ = db.Close() }()
	ctx := context.Background()
	publish := func(token int64, body string) error {
		res, err := db.ExecContext(ctx, "UPDATE report SET body = ?1, fence = ?2 WHERE id = ?3 AND fence <= ?2", body, token, 7)
		if err != nil {
			return err
		}
		return fence.SQLite.Applied(ctx, db, res, token, "SELECT fence FROM report WHERE id = ?", 7)
	}

	fmt.Println(publish(34, "by the second holder"))
	fmt.Println(publish(33, "by the first, late"))
	// Output:
	// <nil>
	// fence: stale token 33: the store has seen 34
}

func ExampleCheckKey() {
	fmt.Println(fence.CheckKey("report"))
	fmt.Println(fence.CheckKey("report{7}"))
	// Output:
	// <nil>
	// fence: invalid key: "report{7}" has a brace, which would change its hash tag in Redis
}

func ExampleCheckToken() {
	fmt.Println(fence.CheckToken(1795968430725800))
	fmt.Println(fence.CheckToken(1 << 53))
	// Output:
	// <nil>
	// fence: invalid token: 9007199254740992 is not between 1 and 2^53 - 1
}
