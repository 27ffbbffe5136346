package android.content;

import android.database.Cursor;
import android.net.Uri;
import android.os.Bundle;

public abstract class ContentResolver {
    public Bundle call(Uri uri, String method, String arg, Bundle extras) { throw new IllegalArgumentException("Unknown authority " + uri); }
    public ContentProviderClient acquireContentProviderClient(String authority) { return null; }
    public Cursor query(Uri uri, String[] columns, String where, String[] args, String order) { return null; }
}
