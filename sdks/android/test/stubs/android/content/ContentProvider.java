package android.content;

import android.database.Cursor;
import android.net.Uri;
import android.os.Bundle;

public abstract class ContentProvider {
    private Context context;
    public final Context getContext() { return context; }
    /** What Android does when it creates a provider. */
    public void attach(Context given) { context = given; onCreate(); }
    public abstract boolean onCreate();
    public Bundle call(String method, String arg, Bundle extras) { return null; }
    public abstract Cursor query(Uri uri, String[] columns, String where, String[] args, String order);
    public abstract String getType(Uri uri);
    public abstract Uri insert(Uri uri, ContentValues values);
    public abstract int update(Uri uri, ContentValues values, String where, String[] args);
    public abstract int delete(Uri uri, String where, String[] args);
}
